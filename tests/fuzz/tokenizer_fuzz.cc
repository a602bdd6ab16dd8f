// A tokenizer.json gives tokens of its vocabulary that do not depend on how a text is cut, or an error. In the input, @
// stands for the 256 bytes that a vocabulary must have, so that a short input reaches the code after them.
#include <fmt/format.h>

#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"
#include "weft/core/host/utf8.h"
#include "weft/train/tokenizer/huggingface_tokenizer.h"
#include "weft/train/tokenizer/stream_encoder.h"

namespace weft {
namespace {

// Returns the vocabulary of all bytes, as tokenizer.json spells and numbers them.
std::string Letters() {
  std::string letters;
  for (uint32_t byte = 0, next = 256; byte < 256; byte++) {
    bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    std::string letter;
    AppendUtf8(printable ? byte : next++, letter);
    bool escaped = letter == "\"" || letter == "\\";
    letters += fmt::format("{}\"{}{}\":{}", byte == 0 ? "" : ",", escaped ? "\\" : "", letter, byte);
  }
  return letters;
}

// Encodes the whole text in blocks of a few bytes. Returns the tokenizer's error if there is one.
absl::StatusOr<std::vector<int32_t>> Streamed(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> all;
  StreamEncoder encoder(tokenizer, [&](std::span<const int32_t> tokens) {
    all.insert(all.end(), tokens.begin(), tokens.end());
    return absl::OkStatus();
  });
  while (!text.empty()) {
    size_t size = std::max<size_t>(WholeCodePoints(text.substr(0, 5)), 1);
    if (absl::Status s = encoder.Add(text.substr(0, size)); !s.ok()) return s;
    text.remove_prefix(size);
  }
  if (absl::Status s = encoder.Finish(); !s.ok()) return s;
  return all;
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  static const std::string letters = Letters();
  constexpr std::string_view kText =
      "It's 1234 \xE4\xB8\xAD\xC3\xA9<|a|>  ab\xE1\xA0\x8E\n\n ab <s>\t'LL  \xF0\x9F\x99\x82 aaaa ";
  std::string json(fuzz::Text(data, size));
  if (size_t at = json.find('@'); at != json.npos) json.replace(at, 1, letters);
  // An error, and an encoder's memory for words.
  fuzz::AllocationBound bound(json.size(), {.largest = 64 << 10, .live = 256 << 10});
  absl::StatusOr<Tokenizer> tokenizer = HuggingFaceTokenizer({std::move(json)});
  if (!tokenizer.ok()) return 0;
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer->Encode(kText);
  if (!tokens.ok()) return 0;  // the pattern needs too many steps
  for (int32_t token : *tokens) fuzz::Check(token >= 0 && token < tokenizer->vocab(), "tokens are of the vocabulary");
  tokens->insert(tokens->begin(), tokenizer->begin().begin(), tokenizer->begin().end());
  absl::StatusOr<std::vector<int32_t>> streamed = Streamed(*tokenizer, kText);
  fuzz::Check(!streamed.ok() || *streamed == *tokens, "tokens do not depend on how a text is cut");
  return 0;
}
