// Documents: texts that are held in memory to be turned into tokens there. Before they grow, memory for it must be
// free: the answer is then an error that says what to do, and not the end of the process.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/data/document_reader.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

struct Documents {
  std::string text;            // end to end
  std::vector<size_t> begins;  // where in the text each begins
  SkipCount skipped;

  // Takes off the text from `at` on, and returns it. A document that is cut is one in both.
  Documents CutTail(size_t at);
  void Append(Documents more);
};

// As DocumentReader reads them. kResourceExhausted: too little memory is free.
absl::StatusOr<Documents> ReadDocuments(const std::vector<std::string>& files, const std::string& field);

// The tokens of all of them: those that every text begins with, and then the documents, with an end-of-text token
// between two where the tokenizer has one. kResourceExhausted: too little memory is free.
absl::StatusOr<std::vector<int32_t>> EncodeDocuments(const Tokenizer& tokenizer, const Documents& documents);

}  // namespace weft
