// Text as gzip, Zstandard or plain, and JSONL. Reading gives the same text for all block sizes, in whole characters, or
// returns an error.
#include <filesystem>

#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"
#include "weft/core/host/utf8.h"
#include "weft/train/data/document_reader.h"

namespace weft {
namespace {

// The beginning of a text, because a short file may contain a long text, and how reading ended.
struct Outcome {
  std::string beginning;
  size_t bytes = 0, documents = 0;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

Outcome Read(const std::string& path, size_t block) {
  constexpr size_t kMost = 4096;
  Outcome outcome;
  for (DocumentReader reader({path}, "text", block);;) {
    absl::StatusOr<TextBlock> next = reader.Next();
    if (!next.ok()) {
      outcome.error = std::string(next.status().message());
      return outcome;
    }
    std::string_view text = next->text;
    if (text.empty()) return outcome;
    fuzz::Check(next->begins || outcome.documents > 0, "the first block begins a document");
    fuzz::Check(InvalidUtf8(text) == text.npos && text.find('\0') == text.npos, "blocks are whole characters");
    outcome.documents += next->begins;
    outcome.bytes += text.size();
    outcome.beginning += text.substr(0, std::min(text.size(), kMost - outcome.beginning.size()));
  }
}

// Returns a link to the input whose name ends in .jsonl.
std::string AsRecords(const std::string& path) {
  static const std::filesystem::path link =
      std::filesystem::temp_directory_path() / ("weft_fuzz_" + std::to_string(::getpid()) + ".jsonl");
  std::filesystem::remove(link);
  std::filesystem::create_symlink(path, link);
  return link;
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  std::string path = fuzz::FileOf(data, size), records = AsRecords(path);
  {
    fuzz::AllocationBound bound(size, {.largest = 132 << 10, .live = 320 << 10});
    Outcome whole = Read(path, 4096), small = Read(path, 5);
    // The blocks before an error may end at other places.
    fuzz::Check(whole.error.empty() ? whole == small : !small.error.empty(), "blocks of any size make the same text");
  }
  // A line may be as long as a record, and a packed file of a few bytes can contain a long one.
  if (DecoderOf(fuzz::Text(data, size))) return std::filesystem::remove(records), 0;
  fuzz::AllocationBound bound(size, {.largest = 132 << 10, .live = 320 << 10});
  Outcome whole = Read(records, 4096), small = Read(records, 5);
  fuzz::Check(whole == small || (!whole.error.empty() && !small.error.empty()), "records are the same in any blocks");
  std::filesystem::remove(records);
  return 0;
}
