#include "weft/train/tokenizer/tiktoken_tokenizer.h"

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "weft/train/tokenizer/bpe_tokenizer.h"

namespace weft {
namespace {

constexpr int32_t kLlama3Ranks = 128'000, kLlama3Special = 256;

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

// Returns the bytes of each rank.
absl::StatusOr<std::vector<std::string>> ReadLines(std::string_view text) {
  std::vector<std::string> texts;
  for (size_t number = 1; !text.empty(); number++) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    size_t space = std::min(line.find(' '), line.size());
    std::string_view digits = line.substr(std::min(space + 1, line.size()));
    std::string bytes;
    size_t rank = 0;
    bool read = absl::Base64Unescape(absl::string_view(line.data(), space), &bytes) && !bytes.empty() &&
                absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &rank);
    if (!read || rank != texts.size())
      return Bad(fmt::format("line {}: expected the base64 of a token and the rank {}, got {:?}", number, texts.size(),
                             line.substr(0, 80)));
    texts.push_back(std::move(bytes));
  }
  return texts;
}

// Two tokens can be merged if their joined bytes are a third token. That token's rank is the rank of the merge.
absl::StatusOr<BytePairs> PairsOf(const std::vector<std::string>& texts) {
  BytePairs pairs;
  pairs.letters.fill(-1);
  for (size_t i = 0; i < texts.size(); i++) {
    if (!pairs.whole_words.try_emplace(texts[i], int32_t(i)).second)
      return Bad(
          fmt::format("line {}: expected other bytes than those of rank {}", i + 1, pairs.whole_words[texts[i]]));
    if (texts[i].size() == 1) pairs.letters[uint8_t(texts[i][0])] = int32_t(i);
  }
  for (size_t byte = 0; byte < pairs.letters.size(); byte++)
    if (pairs.letters[byte] < 0) return Bad(fmt::format("expected a token for each byte, got none for 0x{:02x}", byte));
  for (size_t i = 0; i < texts.size(); i++)
    for (size_t cut = 1; cut < texts[i].size(); cut++) {
      absl::string_view text = texts[i];
      auto left = pairs.whole_words.find(text.substr(0, cut)), right = pairs.whole_words.find(text.substr(cut));
      if (left != pairs.whole_words.end() && right != pairs.whole_words.end())
        pairs.merges[BytePairs::KeyOf(left->second, right->second)] = {uint32_t(i), int32_t(i)};
    }
  return pairs;
}

// Special tokens with the same name in every release of Llama 3. The others are reserved: no text contains them.
constexpr std::pair<const char*, int32_t> kLlama3Named[] = {{"<|begin_of_text|>", 0},
                                                            {"<|end_of_text|>", 1},
                                                            {"<|start_header_id|>", 6},
                                                            {"<|end_header_id|>", 7},
                                                            {"<|eot_id|>", 9}};

}  // namespace

absl::StatusOr<Tokenizer> TiktokenTokenizer(TokenizerFiles files) {
  absl::StatusOr<std::vector<std::string>> texts = ReadLines(files.table);
  if (!texts.ok()) return texts.status();
  if (texts->size() != kLlama3Ranks)
    return Bad(
        fmt::format("expected the {} lines of Llama 3, got {}: the lines do not hold the pattern and the special "
                    "tokens, which weft knows of Llama 3 only; give the tokenizer.json of this model",
                    kLlama3Ranks, texts->size()));
  absl::StatusOr<BytePairs> pairs = PairsOf(*texts);
  if (!pairs.ok()) return pairs.status();
  absl::StatusOr<Regex> pattern = Regex::Compile(kLlama3Pattern);
  if (!pattern.ok()) return pattern.status();
  BpeModel model{.texts = *std::move(texts), .pairs = *std::move(pairs)};
  model.texts.resize(kLlama3Ranks + kLlama3Special);
  std::vector<AddedToken> added;
  for (auto [name, place] : kLlama3Named) {
    added.push_back({name, kLlama3Ranks + place});
    model.texts[size_t(kLlama3Ranks + place)] = name;
  }
  model.added[0] = AddedTokens(std::move(added));
  model.splits = {{*std::move(pattern)}};
  model.begin = {kLlama3Ranks};
  model.end_of_text = kLlama3Ranks + 1;
  return BpeTokenizer(TokenizerKind::kTiktoken, std::move(files), std::move(model));
}

}  // namespace weft
