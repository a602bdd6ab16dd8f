#include "weft/train/data/data_format.h"

#include <algorithm>

#include "weft/train/data/source/token_shard.h"

namespace weft {
namespace {

constexpr DataFormat kFormats[] = {
    {.name = "text", .one = "a text", .few = "text", .claims = nullptr, .open = nullptr},
    {.name = "token shards",
     .one = "a token shard",
     .few = "shards",
     .claims = BeginsAsTokenShard,
     .open = TokenStream::Map},
};

}  // namespace

std::span<const DataFormat> DataFormats() { return kFormats; }

const DataFormat& FormatOf(const std::string& path) {
  auto claims = [&](const DataFormat& format) { return format.claims && format.claims(path); };
  const DataFormat* found = std::find_if(std::begin(kFormats), std::end(kFormats), claims);
  return found == std::end(kFormats) ? kFormats[0] : *found;
}

}  // namespace weft
