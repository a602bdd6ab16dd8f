// Sentencepiece models that a test trains.
#pragma once
#include <string>

#include "weft/train/tokenizer/sentencepiece_tokenizer.h"

namespace weft::testing_ {

inline absl::StatusOr<std::string> Learn(const std::string& text, int64_t vocab, double share = 1) {
  bool given = false;
  return LearnSentencePiece(
      [&]() -> absl::StatusOr<std::string_view> {
        if (given) return std::string_view();
        given = true;
        return std::string_view(text);
      },
      vocab, share);
}

// Whether this build has the sentencepiece library.
inline bool HasSentencePiece() {
  return std::string(Learn("a", 1).status().message()).find("built without") == std::string::npos;
}

}  // namespace weft::testing_
