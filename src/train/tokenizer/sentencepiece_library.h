// The sentencepiece library behind plain types: its headers declare absl::string_view, and so do Abseil's, so no source
// can include both. A build without the library has no_sentencepiece.cc in place of sentencepiece_library.cc.
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
  // Of the bytes of a .model file; null where they are none, and `fault` says why.
  static std::unique_ptr<SentencePieceModel> Open(std::string_view bytes, std::string& fault);
  virtual ~SentencePieceModel() = default;

  enum Kind : uint8_t { kText, kByte, kControl, kUnknown };
  struct Piece {
    Kind kind;
    std::string spelling;  // U+2581 for a space; <0x0A> for a byte
  };
  virtual std::vector<Piece> Pieces() const = 0;
  virtual void Encode(std::string_view text, std::vector<int32_t>& tokens) const = 0;
  virtual int BeginOfText() const = 0;  // the number of its piece <s>; negative: none
  virtual int EndOfText() const = 0;    // the same of </s>
};

struct SentencePieceOptions {
  int64_t vocab = 0;  // at most: a text may have fewer pieces
  int64_t longest_sentence = 0;
  int threads = 1;
};
// Gives the next sentence, or false behind the last.
using NextSentence = std::function<bool(std::string&)>;
// Learns byte pairs and gives the bytes of a .model file; "" where it cannot, and `fault` says why. Encoding by the
// model loses nothing: no normalization, and bytes for what no piece has.
std::string LearnSentencePieces(const SentencePieceOptions& options, const NextSentence& next, std::string& fault);

}  // namespace weft
