// Prepare: texts become token shards, the tokenizer's file and a config that trains on them. Texts may be larger than
// memory. What is wrong with the arguments or the texts is InvalidArgument.
//
//   absl::StatusOr<PrepareReport> report = Prepare({.out = "data/mine", .inputs = {"book.txt"}, .tokenizer = "chars"});
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/config/config.h"
#include "weft/train/io/text_reader.h"

namespace weft {

struct PrepareOptions {
  std::string out;                  // a folder, new or empty
  PathList inputs;                  // texts, as data.train has them
  std::string tokenizer = "bytes";  // as data.tokenizer has it, or sentencepiece: learnt from the text
  int64_t vocab = 8000;             // pieces that sentencepiece learns,
  int64_t sample = 100'000'000;     //   from some so many bytes
  ValSource val = {.paths = {}, .fraction = 0.1};
  int64_t shard = 100'000'000;  // tokens of a file of training data
  std::string field = "text";   // of a JSONL record, that holds its text
  size_t block = TextReader::kBlock;
};

struct PrepareReport {
  size_t files = 0;
  int64_t bytes = 0;      // of training and validation text
  std::string tokenizer;  // as data.tokenizer has it
  int64_t vocab = 0, train_tokens = 0, val_tokens = 0;
  std::vector<std::string> train, val;  // paths
  std::string config;
  std::string note;     // on val, what is odd and not wrong; "": nothing
  std::string skipped;  // what of the texts was not taken; "": nothing
  double learning_s = 0, seconds = 0;
};

absl::StatusOr<PrepareReport> Prepare(const PrepareOptions& options);

}  // namespace weft
