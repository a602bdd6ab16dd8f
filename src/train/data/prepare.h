// Prepare: converts texts to token shards, with the tokenizer's files and a config that trains on them. Texts may be
// larger than memory. Wrong arguments or texts give InvalidArgument.
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
  PathList inputs;                  // texts, as in data.train
  std::string tokenizer = "bytes";  // as in data.tokenizer, or sentencepiece: trained on the text
  int64_t vocab = 8000;             // pieces of a new sentencepiece model,
  int64_t sample = 100'000'000;     // and about how many bytes of text to train it on
  ValSource val = {.paths = {}, .fraction = 0.1};
  int64_t shard = 100'000'000;  // tokens per training shard
  std::string field = "text";   // the field of a JSONL record with its text
  size_t block = TextReader::kBlock;
};

struct PrepareReport {
  size_t files = 0;
  int64_t bytes = 0;      // of training and validation text
  std::string tokenizer;  // as in data.tokenizer
  int64_t vocab = 0, train_tokens = 0, val_tokens = 0;
  std::vector<std::string> train, val;  // paths
  std::string config;
  std::string note;     // about odd but valid validation data; "": none
  std::string skipped;  // what was skipped in the texts; "": nothing
  double learning_s = 0, seconds = 0;
};

absl::StatusOr<PrepareReport> Prepare(const PrepareOptions& options);

}  // namespace weft
