#include "weft/train/tokenizer/tokenizer.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "weft/core/host/utf8.h"
#include "weft/train/tokenizer/huggingface_tokenizer.h"
#include "weft/train/tokenizer/published_tokenizer.h"
#include "weft/train/tokenizer/sentencepiece_tokenizer.h"
#include "weft/train/tokenizer/tiktoken_tokenizer.h"

namespace weft {
namespace {

class ByteEncoder : public TokenEncoder {
 public:
  absl::StatusOr<size_t> Encode(std::string_view text, bool, std::vector<int32_t>& tokens) override {
    for (char byte : text) tokens.push_back(uint8_t(byte));
    return text.size();
  }
};

class CharEncoder : public TokenEncoder {
 public:
  explicit CharEncoder(std::shared_ptr<const std::vector<uint32_t>> code_points)
      : code_points_(std::move(code_points)) {}

  absl::StatusOr<size_t> Encode(std::string_view text, bool, std::vector<int32_t>& tokens) override {
    if (absl::Status s = CheckUtf8(text, offset_); !s.ok()) return s;
    for (size_t at = 0; at < text.size();) {
      size_t begin = at;
      uint32_t code_point = NextCodePoint(text, at);
      auto found = std::lower_bound(code_points_->begin(), code_points_->end(), code_point);
      if (found == code_points_->end() || *found != code_point)
        return absl::InvalidArgumentError(
            fmt::format("the character {:?} at offset {} is not among the {} that the tokenizer has",
                        text.substr(begin, at - begin), offset_ + int64_t(begin), code_points_->size()));
      tokens.push_back(int32_t(found - code_points_->begin()));
    }
    offset_ += int64_t(text.size());
    return text.size();
  }

 private:
  std::shared_ptr<const std::vector<uint32_t>> code_points_;  // sorted
  int64_t offset_ = 0;
};

Tokenizer OfCodePoints(std::vector<uint32_t> sorted) {
  std::vector<std::string> texts(sorted.size());
  for (size_t i = 0; i < sorted.size(); i++) AppendUtf8(sorted[i], texts[i]);
  std::string table = absl::StrJoin(texts, "");
  auto shared = std::make_shared<const std::vector<uint32_t>>(std::move(sorted));
  return Tokenizer(
      {.kind = TokenizerKind::kChars, .files = {std::move(table)}, .texts = std::move(texts), .start = [shared] {
         return std::make_unique<CharEncoder>(shared);
       }});
}

absl::StatusOr<Tokenizer> CharsOfFile(const std::string& table) {
  auto bad = [](const std::string& what) {
    return absl::InvalidArgumentError(
        fmt::format("expected the characters of a tokenizer, each above the one before, got {}; give the "
                    "tokenizer.chars that weft prepare wrote",
                    what));
  };
  if (table.empty()) return bad("an empty file");
  if (absl::Status s = CheckUtf8(table, 0); !s.ok()) return bad("what is not UTF-8");
  std::vector<uint32_t> code_points;
  for (size_t at = 0; at < table.size();) {
    size_t begin = at;
    uint32_t code_point = NextCodePoint(table, at);
    if (!code_points.empty() && code_point <= code_points.back())
      return bad(fmt::format("{:?} at offset {}", table.substr(begin, at - begin), begin));
    code_points.push_back(code_point);
  }
  return OfCodePoints(std::move(code_points));
}

absl::StatusOr<Tokenizer> BytesOfFile(const std::string& table) {
  Tokenizer bytes = Tokenizer::Bytes();
  if (table == bytes.files().table) return bytes;
  return absl::InvalidArgumentError(
      fmt::format("expected the {} bytes in their order, got {} other ones", bytes.vocab(), table.size()));
}

}  // namespace

absl::Status CheckUtf8(std::string_view text, int64_t offset) {
  size_t bad = InvalidUtf8(text);
  if (bad == text.npos) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("expected UTF-8 text, got the byte 0x{:02x} at offset {}",
                                                uint8_t(text[bad]), offset + int64_t(bad)));
}

void CodePointSet::Add(std::string_view text) {
  for (size_t at = 0; at < text.size();) seen_[NextCodePoint(text, at)] = true;
}

std::vector<uint32_t> CodePointSet::Sorted() const {
  std::vector<uint32_t> sorted;
  for (uint32_t c = 0; c < seen_.size(); c++)
    if (seen_[c]) sorted.push_back(c);
  return sorted;
}

Tokenizer Tokenizer::Bytes() {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; byte++) texts.emplace_back(1, char(byte));
  std::string table = absl::StrJoin(texts, "");
  return Tokenizer({.kind = TokenizerKind::kBytes, .files = {std::move(table)}, .texts = std::move(texts), .start = [] {
                      return std::make_unique<ByteEncoder>();
                    }});
}

Tokenizer Tokenizer::Chars(const CodePointSet& chars) { return OfCodePoints(chars.Sorted()); }

Tokenizer Tokenizer::Chars(const std::vector<std::string_view>& texts) {
  CodePointSet chars;
  for (std::string_view text : texts) chars.Add(text);
  return Chars(chars);
}

absl::StatusOr<Tokenizer> Tokenizer::FromFiles(TokenizerKind kind, TokenizerFiles files) {
  switch (kind) {
    case TokenizerKind::kBytes:
      break;
    case TokenizerKind::kChars:
      return CharsOfFile(files.table);
    case TokenizerKind::kSentencePiece:
      return SentencePieceTokenizer(std::move(files));
    case TokenizerKind::kHuggingFace:
      return HuggingFaceTokenizer(std::move(files));
    case TokenizerKind::kTiktoken:
      return TiktokenTokenizer(std::move(files));
  }
  return BytesOfFile(files.table);
}

absl::StatusOr<Tokenizer> Tokenizer::Open(const std::string& name) {
  size_t colon = name.find(':');
  if (colon == name.npos) return Bytes();
  std::string path = name.substr(colon + 1), word = name.substr(0, colon);
  if (path.empty()) return absl::InvalidArgumentError(fmt::format("expected a path after {}, got nothing", name));
  for (size_t kind = 0; kind < std::size(kTokenizers); kind++)
    if (word == kTokenizers[kind].word) return OpenTokenizer(TokenizerKind(kind), path);
  return absl::InvalidArgumentError(fmt::format("expected a tokenizer's word before the path, got {}", name));
}

std::vector<std::pair<const char*, const std::string*>> Tokenizer::NamedFiles() const {
  std::vector<std::pair<const char*, const std::string*>> files = {{names().file, &parts_->files.table}};
  if (!parts_->files.settings.empty()) files.emplace_back(kTokenizerSettings, &parts_->files.settings);
  return files;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  if (absl::Status s = Start()->Encode(text, /*ends=*/true, tokens).status(); !s.ok()) return s;
  return tokens;
}

std::string_view Tokenizer::TextOf(int32_t token, bool& begins) const {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  bool known = token >= 0 && token < vocab(), between = !parts_->added.empty();
  std::string_view text = known ? parts_->texts[size_t(token)] : kReplacement;
  if (token == parts_->end_of_text) begins = true;  // for the document that follows
  if (text.empty()) return text;
  bool added = between && known && parts_->added[size_t(token)];
  bool prefixed = begins && !added && (parts_->lines_are_prefixed || between) && text.front() == ' ';
  begins = between ? added : text.back() == '\n';
  return text.substr(prefixed ? 1 : 0);
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  bool begins = true;
  for (int32_t token : tokens) text += TextOf(token, begins);
  return text;
}

}  // namespace weft
