// Wraps the sentencepiece library in plain types. Its headers and Abseil's both declare absl::string_view, so no source
// file can include both. A build without the library compiles no_sentencepiece.cc in place of sentencepiece_library.cc.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class SentencePieceModel {
 public:
  // Opens the bytes of a .model file. Returns null if they are not a model, and sets `fault` to the reason.
  static std::unique_ptr<SentencePieceModel> Open(std::string_view bytes, std::string& fault);
  virtual ~SentencePieceModel() = default;

  enum Kind : uint8_t { kText, kByte, kControl, kUnknown };
  struct Piece {
    Kind kind;
    std::string spelling;  // U+2581 for a space; <0x0A> for a byte
  };
  virtual std::vector<Piece> Pieces() const = 0;
  virtual void Encode(std::string_view text, std::vector<int32_t>& tokens) const = 0;
  virtual int BeginOfText() const = 0;  // id of the piece <s>; negative if there is none
  virtual int EndOfText() const = 0;    // id of the piece </s>; negative if there is none
};

struct SentencePieceOptions {
  int64_t vocab = 0;  // upper limit: a text may have fewer pieces
  int64_t longest_sentence = 0;
  int threads = 1;
};
// Stores the next sentence, or returns false after the last one.
using NextSentence = std::function<bool(std::string&)>;
// Trains a BPE model. Returns the bytes of its .model file, or "" after setting `fault` to the reason. The model
// encodes losslessly: it does not normalize, and text without a piece becomes bytes.
std::string LearnSentencePieces(const SentencePieceOptions& options, const NextSentence& next, std::string& fault);

}  // namespace weft
