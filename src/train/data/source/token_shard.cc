#include "weft/train/data/source/token_shard.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "fmt/format.h"

#include "weft/train/io/bad_input.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are read as they lie on disk");

constexpr ShardFormat kFormats[] = {{20240520, 1, 2}, {20240801, 7, 4}};

const ShardFormat* FindFormat(int32_t magic) {
  auto found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const ShardFormat& f) { return f.magic == magic; });
  return found == std::end(kFormats) ? nullptr : found;
}

}  // namespace

const ShardFormat& ShardFormatOf(int64_t vocab) { return vocab <= int64_t{1} << 16 ? kFormats[0] : kFormats[1]; }

bool BeginsAsTokenShard(const std::string& path) {
  int32_t magic = 0;
  absl::StatusOr<InputFile> file = InputFile::Open(path);
  // A file that cannot be read is not a shard; reading it as text then reports the error.
  if (!file.ok() || !file->Read({reinterpret_cast<char*>(&magic), sizeof magic}).ok()) return false;
  return FindFormat(magic) != nullptr;
}

absl::StatusOr<TokenShard> OpenTokenShard(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path, MappedFile::kAnywhere);
  if (!file.ok()) return file.status();
  auto bytes = int64_t((*file)->bytes().size());
  if (bytes < kShardHeaderBytes)
    return BadInput(path,
                    fmt::format("expected a token shard's header of {} bytes, got a file of {}; copy or make it again",
                                kShardHeaderBytes, bytes));
  int32_t header[3];  // magic, version, tokens
  std::memcpy(header, (*file)->bytes().data(), sizeof header);
  if (absl::Status s = (*file)->Fault(); !s.ok()) return s;
  const ShardFormat* format = FindFormat(header[0]);
  if (!format)
    return BadInput(path,
                    fmt::format("expected a token shard, which begins with {} or {}, got {}; give a shard of llm.c",
                                kFormats[0].magic, kFormats[1].magic, header[0]));
  if (header[1] != format->version)
    return BadInput(path,
                    fmt::format("expected a token shard of version {} after the magic {}, got version {}; make it "
                                "again with llm.c's scripts",
                                format->version, format->magic, header[1]));
  if (header[2] < 1)
    return BadInput(path,
                    fmt::format("expected at least 1 token, got {} in the header; make the shard again", header[2]));
  int64_t expected = kShardHeaderBytes + int64_t(header[2]) * format->width;
  if (bytes != expected)
    return BadInput(path,
                    fmt::format("expected {} + {} tokens x {} = {} bytes, as the header says, got {}; copy or make it "
                                "again",
                                kShardHeaderBytes, header[2], format->width, expected, bytes));
  return TokenShard{*file, (*file)->bytes().data() + kShardHeaderBytes, format->width, header[2]};
}

}  // namespace weft
