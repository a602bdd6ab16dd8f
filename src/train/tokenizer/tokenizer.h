// Tokenizer: text to token numbers and back. Bytes (256 kinds), chars (the sorted code points of a text, or of a
// table), or a published tokenizer: the pieces of a sentencepiece model, or byte pairs as Hugging Face and tiktoken
// keep them.
//
//   absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Open("chars:data/mine/tokenizer.chars");
//   std::string same = tokenizer->Decode(*tokenizer->Encode(text));
//
// A copy shares the tables.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

enum class TokenizerKind { kBytes, kChars, kSentencePiece, kHuggingFace, kTiktoken };

// In the order of the enum: the word of data.tokenizer, and how the file is called that prepared text and checkpoints
// keep beside what was made with the tokenizer.
struct TokenizerNames {
  const char *word, *file;
};
inline constexpr TokenizerNames kTokenizers[] = {{"bytes", "tokenizer.bytes"},
                                                 {"chars", "tokenizer.chars"},
                                                 {"sentencepiece", "tokenizer.model"},
                                                 {"huggingface", "tokenizer.json"},
                                                 {"tiktoken", "tokenizer.tiktoken"}};
// Beside the file of a published tokenizer: what transformers does around it.
inline constexpr const char* kTokenizerSettings = "tokenizer_config.json";

// What is kept of a tokenizer.
struct TokenizerFiles {
  std::string table;          // all bytes or characters in the order of their numbers, or the model
  std::string settings = {};  // the text of tokenizer_config.json; "": none
};

// Encodes one text, in parts. What the kinds of tokenizer differ in.
class TokenEncoder {
 public:
  virtual ~TokenEncoder() = default;
  // Adds the tokens of the beginning of `text`, which resumes where the last call stopped, as far as they do not depend
  // on what follows it; of all of it if it `ends` there. Returns the number of bytes that they are. `text` is whole
  // code points of UTF-8, unless the tokenizer takes any bytes. Errors count offsets from the first call.
  virtual absl::StatusOr<size_t> Encode(std::string_view text, bool ends, std::vector<int32_t>& tokens) = 0;
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
  // "bytes", or a word and a path: chars:FILE, sentencepiece:FILE, huggingface:FILE or FOLDER, tiktoken:FILE. The
  // folder has a tokenizer.json or, of any of the last three kinds, a tokenizer.model. Errors name the file.
  static absl::StatusOr<Tokenizer> Open(const std::string& name);
  // Whether a name is one of those with a path.
  static bool HasFile(std::string_view name) { return name.find(':') != name.npos; }
  // From what Files() returns.
  static absl::StatusOr<Tokenizer> FromFiles(TokenizerKind kind, TokenizerFiles files);

  struct Parts {
    TokenizerKind kind = TokenizerKind::kBytes;
    TokenizerFiles files = {};
    std::vector<std::string> texts = {};  // of the numbers
    std::vector<int32_t> begin = {};
    std::optional<int32_t> end_of_text = {};
    std::function<std::unique_ptr<TokenEncoder>()> start = nullptr;
    bool lines_are_prefixed = false;  // the encoder puts a space before every line
    // Whether each number is an added token, if the encoder puts a space before the text between these; else empty.
    std::vector<bool> added = {};
  };
  explicit Tokenizer(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}

  TokenizerKind kind() const { return parts_->kind; }
  const TokenizerNames& names() const { return kTokenizers[size_t(kind())]; }
  const TokenizerFiles& files() const { return parts_->files; }
  // The same by name, those that are there: what is to be kept beside tokens.
  std::vector<std::pair<const char*, const std::string*>> NamedFiles() const;
  int64_t vocab() const { return int64_t(parts_->texts.size()); }
  // The tokens that every text begins with, such as <|begin_of_text|>. No encoder adds them.
  const std::vector<int32_t>& begin() const { return parts_->begin; }
  // The token between two documents, such as <|endoftext|>; none in bytes and chars. No encoder adds it.
  std::optional<int32_t> end_of_text() const { return parts_->end_of_text; }
  std::unique_ptr<TokenEncoder> Start() const { return parts_->start(); }
  // Encodes a whole text. Fails on a character that is not in the vocabulary (chars), or on bytes that are not UTF-8
  // (all but bytes).
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const;
  // Numbers outside the vocabulary (a padded model may draw them) become U+FFFD.
  std::string Decode(std::span<const int32_t> tokens) const;
  // The text that a token stands for. `begins`, true before the first token, is kept by these calls: a space that an
  // encoder puts before a line, or before text between added tokens, is no text.
  std::string_view TextOf(int32_t token, bool& begins) const;

 private:
  std::shared_ptr<const Parts> parts_;
};

// `offset` is that of the text, as the error counts.
absl::Status CheckUtf8(std::string_view text, int64_t offset);

}  // namespace weft
