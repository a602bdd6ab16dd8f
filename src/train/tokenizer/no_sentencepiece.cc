// Replaces sentencepiece_library.cc in a build without the sentencepiece library.
#include "weft/train/tokenizer/sentencepiece_library.h"

namespace weft {
namespace {

constexpr const char* kAbsent =
    "this weft was built without sentencepiece; install libsentencepiece-dev, configure and build again, or use bytes "
    "or "
    "chars";

}  // namespace

std::unique_ptr<SentencePieceModel> SentencePieceModel::Open(std::string_view, std::string& fault) {
  fault = kAbsent;
  return nullptr;
}

std::string LearnSentencePieces(const SentencePieceOptions&, const NextSentence&, std::string& fault) {
  fault = kAbsent;
  return "";
}

}  // namespace weft
