#include "parallel/train/tokenizer.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "fmt/format.h"
#include "parallel/train/path_advice.h"
#include "parallel/train/sentencepiece_tokenizer.h"
#include "parallel/train/text_reader.h"

namespace weft {
namespace {

class ByteEncoder : public TokenEncoder {
 public:
  absl::Status Encode(std::string_view text, int64_t, std::vector<int32_t>& tokens) const override {
    for (char byte : text) tokens.push_back(uint8_t(byte));
    return absl::OkStatus();
  }
};

class CharEncoder : public TokenEncoder {
 public:
  explicit CharEncoder(std::vector<uint32_t> code_points) : code_points_(std::move(code_points)) {}

  absl::Status Encode(std::string_view text, int64_t offset, std::vector<int32_t>& tokens) const override {
    if (absl::Status s = CheckUtf8(text, offset); !s.ok()) return s;
    for (size_t at = 0; at < text.size();) {
      size_t begin = at;
      uint32_t code_point = NextCodePoint(text, at);
      auto found = std::lower_bound(code_points_.begin(), code_points_.end(), code_point);
      if (found == code_points_.end() || *found != code_point)
        return absl::InvalidArgumentError(
            fmt::format("the character {:?} at offset {} is not among the {} that the tokenizer has",
                        text.substr(begin, at - begin), offset + int64_t(begin), code_points_.size()));
      tokens.push_back(int32_t(found - code_points_.begin()));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<uint32_t> code_points_;  // sorted
};

std::string Joined(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += text;
  return joined;
}

Tokenizer OfCodePoints(std::vector<uint32_t> sorted) {
  std::vector<std::string> texts(sorted.size());
  for (size_t i = 0; i < sorted.size(); i++) AppendUtf8(sorted[i], texts[i]);
  std::string file = Joined(texts);
  return Tokenizer({.kind = TokenizerKind::kChars,
                    .file = std::move(file),
                    .texts = std::move(texts),
                    .encoder = std::make_unique<CharEncoder>(std::move(sorted))});
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
  if (table == bytes.File()) return bytes;
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
  std::string file = Joined(texts);
  return Tokenizer({.kind = TokenizerKind::kBytes,
                    .file = std::move(file),
                    .texts = std::move(texts),
                    .encoder = std::make_unique<ByteEncoder>()});
}

Tokenizer Tokenizer::Chars(const CodePointSet& chars) { return OfCodePoints(chars.Sorted()); }

Tokenizer Tokenizer::Chars(const std::vector<std::string_view>& texts) {
  CodePointSet chars;
  for (std::string_view text : texts) chars.Add(text);
  return Chars(chars);
}

absl::StatusOr<Tokenizer> Tokenizer::FromFile(TokenizerKind kind, std::string file) {
  switch (kind) {
    case TokenizerKind::kBytes:
      break;
    case TokenizerKind::kChars:
      return CharsOfFile(file);
    case TokenizerKind::kSentencePiece:
      return SentencePieceTokenizer(std::move(file));
  }
  return BytesOfFile(file);
}

absl::StatusOr<Tokenizer> Tokenizer::Open(const std::string& name) {
  size_t colon = name.find(':');
  if (colon == name.npos) return Bytes();
  std::string path = name.substr(colon + 1);
  if (path.empty()) return absl::InvalidArgumentError(fmt::format("expected a path behind {}, got nothing", name));
  absl::StatusOr<std::string> file = ReadFile(path);
  if (!file.ok()) return absl::InvalidArgumentError(std::string(file.status().message()) + PathAdvice(path));
  bool chars = name.starts_with("chars:");
  absl::StatusOr<Tokenizer> tokenizer =
      FromFile(chars ? TokenizerKind::kChars : TokenizerKind::kSentencePiece, *std::move(file));
  if (tokenizer.ok()) return tokenizer;
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(tokenizer.status().message())));
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, int64_t offset) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  if (absl::Status s = parts_->encoder->Encode(text, offset, tokens); !s.ok()) return s;
  return tokens;
}

std::string_view Tokenizer::TextOf(int32_t token, bool& line_begins) const {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string_view text = token >= 0 && token < vocab() ? parts_->texts[size_t(token)] : kReplacement;
  if (text.empty()) return text;
  bool prefixed = parts_->lines_are_prefixed && line_begins && text.front() == ' ';
  line_begins = text.back() == '\n';
  return text.substr(prefixed ? 1 : 0);
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  bool line_begins = true;
  for (int32_t token : tokens) text += TextOf(token, line_begins);
  return text;
}

}  // namespace weft
