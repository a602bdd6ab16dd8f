// Tokenizer: converts text to token ids and back. The kinds are bytes (256 ids), chars (the sorted code points of a
// text or a table), and published tokenizers: sentencepiece models, and BPE files of Hugging Face and tiktoken.
//
//   absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Open("chars:data/mine/tokenizer.chars");
//   std::string same = tokenizer->Decode(*tokenizer->Encode(text));
//
// Copies share the tables.
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

// In the order of TokenizerKind. `word` is the value of data.tokenizer. `file` is the name of the tokenizer file that
// is kept next to prepared text and in checkpoints.
struct TokenizerNames {
  const char *word, *file;
};
inline constexpr TokenizerNames kTokenizers[] = {{"bytes", "tokenizer.bytes"},
                                                 {"chars", "tokenizer.chars"},
                                                 {"sentencepiece", "tokenizer.model"},
                                                 {"huggingface", "tokenizer.json"},
                                                 {"tiktoken", "tokenizer.tiktoken"}};
// The settings that transformers keeps next to a published tokenizer.
inline constexpr const char* kTokenizerSettings = "tokenizer_config.json";

// How published tokenizers spell the token that masks another.
inline constexpr const char* kMaskSpellings[] = {"[MASK]", "<mask>"};

// The contents of a tokenizer's files.
struct TokenizerFiles {
  std::string table;          // all bytes or characters in id order, or the model
  std::string settings = {};  // the text of tokenizer_config.json; "" if there is none
};

// Encodes one text, in parts. Each kind of tokenizer has its own.
class TokenEncoder {
 public:
  virtual ~TokenEncoder() = default;
  // Appends the tokens of the longest beginning of `text` that do not depend on the text that follows, or of all of
  // `text` if it `ends` there. Returns the number of bytes encoded; the next call must resume there. Requires whole
  // UTF-8 code points unless the tokenizer accepts any bytes. Offsets in errors count from the first call.
  virtual absl::StatusOr<size_t> Encode(std::string_view text, bool ends, std::vector<int32_t>& tokens) = 0;
};

// A set of the code points of texts. Requires valid UTF-8.
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
  // Requires valid UTF-8.
  static Tokenizer Chars(const std::vector<std::string_view>& texts);
  // Opens "bytes", chars:FILE, sentencepiece:FILE, huggingface:FILE or FOLDER, or tiktoken:FILE. A FOLDER contains a
  // tokenizer.json, or a tokenizer.model of any of the last three kinds. Errors name the file.
  static absl::StatusOr<Tokenizer> Open(const std::string& name);
  // Whether a name contains a path.
  static bool HasFile(std::string_view name) { return name.find(':') != name.npos; }
  // Rebuilds a tokenizer from the result of files().
  static absl::StatusOr<Tokenizer> FromFiles(TokenizerKind kind, TokenizerFiles files);

  struct Parts {
    TokenizerKind kind = TokenizerKind::kBytes;
    TokenizerFiles files = {};
    std::vector<std::string> texts = {};  // by token id
    std::vector<int32_t> begin = {};
    std::optional<int32_t> end_of_text = {};
    std::optional<int32_t> mask = {};
    std::function<std::unique_ptr<TokenEncoder>()> start = nullptr;
    bool lines_are_prefixed = false;  // whether the encoder puts a space before every line
    // Set if the encoder puts a space before the text between added tokens, otherwise empty: whether each id is an
    // added token.
    std::vector<bool> added = {};
  };
  explicit Tokenizer(Parts parts) : parts_(std::make_shared<const Parts>(std::move(parts))) {}

  TokenizerKind kind() const { return parts_->kind; }
  const TokenizerNames& names() const { return kTokenizers[size_t(kind())]; }
  const TokenizerFiles& files() const { return parts_->files; }
  // The files that exist, with their names, to be saved with the tokens.
  std::vector<std::pair<const char*, const std::string*>> NamedFiles() const;
  int64_t vocab() const { return int64_t(parts_->texts.size()); }
  // The tokens that every text begins with, such as <|begin_of_text|>. Encoders do not add them.
  const std::vector<int32_t>& begin() const { return parts_->begin; }
  // The token between two documents, such as <|endoftext|>; none for bytes and chars. Encoders do not add it.
  std::optional<int32_t> end_of_text() const { return parts_->end_of_text; }
  // The token that stands in for one that a model is to give; none in bytes and chars. No encoder adds it.
  std::optional<int32_t> mask() const { return parts_->mask; }
  std::unique_ptr<TokenEncoder> Start() const { return parts_->start(); }
  // Encodes a whole text. Returns an error for a character outside the vocabulary (chars) and for invalid UTF-8 (all
  // kinds except bytes).
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const;
  // Ids outside the vocabulary become U+FFFD; a model with a padded vocabulary may sample them.
  std::string Decode(std::span<const int32_t> tokens) const;
  // Returns the text of a token. Set `begins` to true before the first token; the calls update it. A space that the
  // encoder puts before a line, or before the text between added tokens, is removed.
  std::string_view TextOf(int32_t token, bool& begins) const;

 private:
  std::shared_ptr<const Parts> parts_;
};

// Returns an error with the offset of the first invalid byte. `offset` is the offset of `text` itself.
absl::Status CheckUtf8(std::string_view text, int64_t offset);

}  // namespace weft
