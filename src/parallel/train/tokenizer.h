// Tokenizer: text to token numbers and back. Bytes (256 kinds), chars (the sorted code points of a text, or of a table)
// or the pieces of a sentencepiece model.
//
//   absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Open("chars:data/mine/tokenizer.chars");
//   std::string same = tokenizer->Decode(*tokenizer->Encode(text));
//
// A copy shares the tables.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

enum class TokenizerKind { kBytes, kChars, kSentencePiece };

// In the order of the enum: the word of data.tokenizer, and how the file is called that prepared text and checkpoints
// keep beside what was made with the tokenizer.
struct TokenizerNames {
  const char *word, *file;
};
inline constexpr TokenizerNames kTokenizers[] = {
    {"bytes", "tokenizer.bytes"}, {"chars", "tokenizer.chars"}, {"sentencepiece", "tokenizer.model"}};

// What the kinds of tokenizer differ in.
class TokenEncoder {
 public:
  virtual ~TokenEncoder() = default;
  // Adds the numbers of `text`, which stands at `offset`, as errors say where something is.
  virtual absl::Status Encode(std::string_view text, int64_t offset, std::vector<int32_t>& tokens) const = 0;
  // See Tokenizer.
  virtual size_t Encodable(std::string_view text) const { return text.size(); }
};

// The code points of texts, which are valid UTF-8.
class CodePointSet {
 public:
  void Add(std::string_view text);
  std::vector<uint32_t> Sorted() const;

 private:
  std::vector<bool> seen_ = std::vector<bool>(0x110000);
};

class Tokenizer {
 public:
  static Tokenizer Bytes();
  static Tokenizer Chars(const CodePointSet& chars);
  // `texts` are valid UTF-8.
  static Tokenizer Chars(const std::vector<std::string_view>& texts);
  // "bytes", or a word and the path of a file, "chars:PATH" or "sentencepiece:PATH". Errors name the file.
  static absl::StatusOr<Tokenizer> Open(const std::string& name);
  // Whether a name is one of those with a path.
  static bool HasFile(std::string_view name) { return name.find(':') != name.npos; }
  // Of the bytes of a file; File() gives them back.
  static absl::StatusOr<Tokenizer> FromFile(TokenizerKind kind, std::string file);

  struct Parts {
    TokenizerKind kind = TokenizerKind::kBytes;
    std::string file = {};                // all bytes or characters in the order of their numbers, or the model
    std::vector<std::string> texts = {};  // of the numbers
    std::unique_ptr<const TokenEncoder> encoder = nullptr;
    bool lines_are_prefixed = false;  // the encoder puts a space before every line
  };
  explicit Tokenizer(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}

  TokenizerKind kind() const { return parts_->kind; }
  const TokenizerNames& names() const { return kTokenizers[size_t(kind())]; }
  const std::string& File() const { return parts_->file; }
  int64_t vocab() const { return int64_t(parts_->texts.size()); }
  // Fails on a character that is not in the vocabulary (chars), or on bytes that are not UTF-8 (all but bytes).
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, int64_t offset = 0) const;
  // How much of the beginning of `text`, which is whole code points of UTF-8, has tokens that do not depend on what
  // follows it: the tokens of a text are those of such parts, end to end.
  size_t Encodable(std::string_view text) const { return parts_->encoder->Encodable(text); }
  // Numbers outside the vocabulary (a padded model may draw them) become U+FFFD.
  std::string Decode(std::span<const int32_t> tokens) const;
  // The text that a token stands for. `line_begins`, true before the first token, is kept by these calls: the space
  // before a line is no text.
  std::string_view TextOf(int32_t token, bool& line_begins) const;

 private:
  std::shared_ptr<const Parts> parts_;
};

// `offset` is that of the text, as the error counts.
absl::Status CheckUtf8(std::string_view text, int64_t offset);

}  // namespace weft
