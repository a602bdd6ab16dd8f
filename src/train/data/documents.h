// Documents: texts held in memory to be encoded there. Before a buffer grows, the code checks that enough memory is
// free. If not, it returns an error with advice, so that the process is not killed for lack of memory.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/data/document_reader.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

struct Documents {
  std::string text;            // all documents, concatenated
  std::vector<size_t> begins;  // offset in `text` of each document
  SkipCount skipped;

  // Cuts off the text from `at` on and returns it. If the cut is inside a document, both parts count as documents.
  Documents CutTail(size_t at);
  void Append(Documents more);
};

// Reads all documents of the files; see DocumentReader. Returns kResourceExhausted if too little memory is free.
absl::StatusOr<Documents> ReadDocuments(const std::vector<std::string>& files, const std::string& field);

// Returns the tokens of all documents: the tokens that every text begins with, and then the documents, with an
// end-of-text token between two if the tokenizer has one. Returns kResourceExhausted if too little memory is free.
absl::StatusOr<std::vector<int32_t>> EncodeDocuments(const Tokenizer& tokenizer, const Documents& documents);

}  // namespace weft
