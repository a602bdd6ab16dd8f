// Dataset: which tokens each sequence of each step holds, as a function of (seed, step, global row) alone.
//
//   Batch batch = dataset.TrainBatch(step, first_row, rows);      // the same rows on any mesh
//   for (int64_t w = 0; w < dataset.eval_windows(); w += rows) Evaluate(dataset.EvalBatch(w, rows));
//
// Legend: C the context, n the length of a token stream.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/train/config.h"
#include "parallel/train/tokenizer.h"

namespace weft {

using TokenStream = std::vector<int32_t>;

inline constexpr int32_t kIgnoredTarget = -100;  // adds nothing to loss, count or gradient

struct Batch {
  int64_t rows = 0, context = 0;
  std::vector<int32_t> tokens;   // [rows, C]
  std::vector<int32_t> targets;  // [rows, C]: the token that follows, or kIgnoredTarget
  int64_t count = 0;             // targets that are not ignored
  int64_t bytes = 0;             // of text that those targets stand for
};

class Dataset {
 public:
  // Reads what config.data names. Errors carry the place of the key that is at fault.
  static absl::StatusOr<Dataset> Load(const Config& config);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const TokenStream& train() const { return train_; }
  const TokenStream& val() const { return val_; }

  // Rows [first_row, first_row + rows) of the global batch of `step` (from 0). Rows behind the last are all ignored.
  Batch TrainBatch(int64_t step, int64_t first_row, int64_t rows) const;

  // The validation text is cut into windows of C targets; every token but the first is a target exactly once.
  int64_t eval_windows() const;  // 0 without validation text
  // Windows behind the last are all ignored.
  Batch EvalBatch(int64_t first_window, int64_t rows) const;

 private:
  explicit Dataset(const Config& config);
  absl::Status LoadText(const Config& config);
  absl::Status CheckLengths(const Config& config) const;
  // Where in the training stream a sequence of C + 1 tokens begins.
  int64_t TrainOffset(int64_t step, int64_t row) const;
  void AddSynthetic(int64_t step, int64_t row, Batch& batch) const;
  // Adds a row: tokens of `stream` from `begin`, padded where it ends.
  void AddRow(const TokenStream& stream, int64_t begin, Batch& batch) const;

  Tokenizer tokenizer_ = Tokenizer::Bytes();
  TokenStream train_, val_;
  int64_t context_, global_batch_;
  int64_t synthetic_vocab_;  // 0: text
  uint64_t offset_key_, synthetic_key_;
  bool shuffle_;
};

// The text behind the first floor(characters * (1 - fraction)): the same characters whatever the tokenizer.
size_t TailBegin(std::string_view text, double fraction);

}  // namespace weft
