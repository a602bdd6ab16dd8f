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
  // "bytes", "chars:PATH" (a file of the characters in order, as their numbers count them) or "sentencepiece:PATH".
  static absl::StatusOr<Tokenizer> Open(const std::string& name);
  // Whether a name is one of those with a path.
  static bool HasFile(std::string_view name) { return name.find(':') != name.npos; }

  // `texts` are those of the numbers. Where `lines_are_prefixed`, the encoder puts a space before every line.
  Tokenizer(std::vector<std::string> texts, std::shared_ptr<const TokenEncoder> encoder,
            bool lines_are_prefixed = false);

  int64_t vocab() const { return int64_t(texts_->size()); }
  // Fails on a character that is not in the vocabulary (chars), or on bytes that are not UTF-8 (all but bytes).
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, int64_t offset = 0) const;
  // How much of the beginning of `text`, which is whole code points of UTF-8, has tokens that do not depend on what
  // follows it: the tokens of a text are those of such parts, end to end.
  size_t Encodable(std::string_view text) const { return encoder_->Encodable(text); }
  // Numbers outside the vocabulary (a padded model may draw them) become U+FFFD.
  std::string Decode(std::span<const int32_t> tokens) const;
  // The text that a token stands for. `line_begins`, true before the first token, is kept by these calls: the space
  // before a line is no text.
  std::string_view TextOf(int32_t token, bool& line_begins) const;

 private:
  std::shared_ptr<const std::vector<std::string>> texts_;
  std::shared_ptr<const TokenEncoder> encoder_;
  bool lines_are_prefixed_;
};

// `offset` is that of the text, as the error counts.
absl::Status CheckUtf8(std::string_view text, int64_t offset);

}  // namespace weft
