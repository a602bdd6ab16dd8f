#include "weft/train/data/documents.h"

#include <algorithm>

#include "fmt/format.h"
#include "weft/core/base/process_memory.h"
#include "weft/core/host/utf8.h"
#include "weft/train/tokenizer/stream_encoder.h"

namespace weft {
namespace {

// Makes room for `more` elements. Grows by a fraction of the size, as a container does by itself.
template <class Container>
absl::Status MakeRoom(Container& held, size_t more, const char* what) {
  constexpr size_t kElement = sizeof(typename Container::value_type), kSmall = size_t{16} << 20;
  size_t least = held.size() + more, wanted = std::max(least, held.capacity() + held.capacity() / 2);
  if (least <= held.capacity()) return absl::OkStatus();
  if (wanted * kElement > kSmall) {
    Shortage shortage = HostShortage(least * kElement, what);
    const Memory& memory = shortage.memory;
    if (memory.total > 0 && least * kElement > memory.free)
      return absl::ResourceExhaustedError(fmt::format(
          "out of memory on {}: {} asked for ({}), {} free of {}; text is held in memory: give less of it, or token "
          "shards, which weft prepare makes in little memory",
          shortage.where, BytesText(shortage.asked), what, BytesText(memory.free), BytesText(memory.total)));
    if (memory.total > 0) wanted = std::clamp(memory.free / kElement, least, wanted);
  }
  held.reserve(wanted);
  return absl::OkStatus();
}

}  // namespace

Documents Documents::CutTail(size_t at) {
  Documents tail{.text = text.substr(at)};
  auto cut = std::lower_bound(begins.begin(), begins.end(), at);
  if (!tail.text.empty() && (cut == begins.end() || *cut > at)) tail.begins.push_back(0);
  for (auto it = cut; it != begins.end(); ++it) tail.begins.push_back(*it - at);
  begins.erase(cut, begins.end());
  text.resize(at);
  return tail;
}

void Documents::Append(Documents more) {
  if (text.empty()) std::swap(text, more.text);
  size_t begin = more.text.empty() ? 0 : text.size();
  for (size_t at : more.begins) begins.push_back(begin + at);
  text += more.text;
  skipped.Add(more.skipped);
}

absl::StatusOr<Documents> ReadDocuments(const std::vector<std::string>& files, const std::string& field) {
  Documents documents;
  for (DocumentReader reader(files, field);;) {
    absl::StatusOr<TextBlock> block = reader.Next();
    if (!block.ok()) return block.status();
    if (block->text.empty()) {
      documents.skipped = reader.skipped();
      return documents;
    }
    absl::Status room = MakeRoom(documents.text, block->text.size(), "text");
    if (room.ok() && block->begins) room = MakeRoom(documents.begins, 1, "text");
    if (!room.ok()) return room;
    if (block->begins) documents.begins.push_back(documents.text.size());
    documents.text += block->text;
  }
}

absl::StatusOr<std::vector<int32_t>> EncodeDocuments(const Tokenizer& tokenizer, const Documents& documents) {
  std::vector<int32_t> all;
  StreamEncoder encoder(tokenizer, [&](std::span<const int32_t> tokens) {
    absl::Status room = MakeRoom(all, tokens.size(), "tokens");
    if (room.ok()) all.insert(all.end(), tokens.begin(), tokens.end());
    return room;
  });
  std::string_view text = documents.text;
  for (size_t d = 0; d < documents.begins.size(); d++) {
    if (absl::Status s = encoder.BeginDocument(); !s.ok()) return s;
    size_t end = d + 1 < documents.begins.size() ? documents.begins[d + 1] : text.size();
    for (size_t at = documents.begins[d]; at < end;) {
      size_t size = std::min(TextReader::kBlock, end - at);
      if (at + size < end) size = WholeCodePoints(text.substr(at, size));
      if (absl::Status s = encoder.Add(text.substr(at, size)); !s.ok()) return s;
      at += size;
    }
  }
  if (absl::Status s = encoder.Finish(); !s.ok()) return s;
  return all;
}

}  // namespace weft
