// Dataset: the tokens of each sequence of each step. They depend only on (seed, step, global row).
//
//   dataset.FillTrain(step, first_row, batch);      // the same rows on any mesh
//   for (int64_t w = 0; w < dataset.eval_windows(); w += rows) dataset.FillEval(w, dataset.eval_windows(), batch);
//
// Legend: C is the context, n the length of a token stream.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/config/config.h"
#include "weft/train/data/data_files.h"
#include "weft/train/data/pairs.h"
#include "weft/train/data/source/masking.h"
#include "weft/train/data/source/token_source.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

struct Documents;

struct DataOptions {
  const Tokenizer* tokenizer = nullptr;  // null: the config's tokenizer; chars takes its table from the texts
  bool train = true;                     // false: load only validation data, if it needs nothing of the training data
};

class Dataset {
 public:
  // Reads the data that config.data names. Errors begin with the position of the wrong key.
  static absl::StatusOr<Dataset> Load(const Config& config, const DataOptions& options = {});

  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }  // null if token shards name none
  // How many kinds of token a model needs for this data: the tokenizer's, or model.vocab for shards without one. With
  // train.objective: masked one more, if the tokenizer has no mask of its own; with pairs, those of PairLayout.
  int64_t tokenizer_vocab() const;
  // The same number; for token shards, model.vocab if that is larger.
  int64_t vocab() const { return vocab_; }
  const TokenStream& train() const { return train_; }                          // of all sources
  size_t num_sources() const { return source_ ? source_->num_sources() : 0; }  // of a mixture; 0: no mixture
  uint64_t source_hash() const { return source_ ? source_->Hash() : 0; }       // see TokenSource::Hash
  const TokenStream& val() const { return val_; }
  // Memory for the tokens of text, in bytes.
  int64_t HeldBytes() const { return train_.HeldBytes() + val_.HeldBytes(); }
  // Messages for the user about data that looks odd but is valid.
  const std::vector<std::string>& notes() const { return notes_; }

  // The functions below fill a batch and return the number of its targets that are not ignored. They allocate nothing.
  // They throw Error if a token of a shard is not below model.vocab, or if a shard cannot be read.
  //
  // FillTrain fills rows of the global batch of `step`, beginning with first_row. Steps count from 0; `step` must not
  // be before `from`. Rows after the last of the batch are ignored.
  int64_t FillTrain(int64_t step, int64_t first_row, BatchSpan batch, const DataPosition& from = {}) const;
  // Returns the position after `step` steps of a run that was at `from`. Takes at most time proportional to the number
  // of sequences between the two.
  DataPosition PositionAfter(int64_t step, const DataPosition& from) const;

  // The validation data is cut into windows of C targets. Every token except the first is a target exactly once. With
  // train.objective: pairs, each pair is a window.
  int64_t eval_windows() const;  // 0 without validation data
  // Fills windows, beginning with first_window. Windows from end_window on, and those after the last, are ignored.
  int64_t FillEval(int64_t first_window, int64_t end_window, BatchSpan batch) const;
  // Returns the bytes of text that the targets of the first `windows` windows stand for. Returns none without a
  // tokenizer, or if targets are masked tokens or those of pairs.
  std::optional<int64_t> EvalBytes(int64_t windows) const;

 private:
  explicit Dataset(const Config& config);
  void UseTokenizer(Tokenizer tokenizer);
  absl::Status OpenTokenizer(const Config& config);
  absl::Status ChooseMask(const Config& config);
  absl::StatusOr<std::vector<int32_t>> Encode(const Documents& documents) const;
  struct Part;
  static absl::StatusOr<std::vector<Part>> FindParts(const Config& config);
  absl::Status LoadText(const Config& config, std::vector<Part>& parts, const DataFiles& val,
                        const Tokenizer* tokenizer);
  absl::Status EncodeText(const Config& config, std::vector<Part>& parts, const DataFiles& val_files, Documents val);
  void NoteSkipped(const Config& config, const char* key, const DataFiles& files, const SkipCount& more);
  absl::Status LoadTokens(const Config& config, std::vector<Part>& parts, const DataFiles& val,
                          const Tokenizer* tokenizer);
  absl::Status CheckTokens(const Config& config, const std::vector<Part>& parts) const;
  absl::Status CheckLengths(const Config& config, const std::vector<Part>& parts) const;
  std::shared_ptr<const TokenSource> MakeSource(const Config& config, const std::vector<Part>& parts) const;
  BatchSpan RowOf(BatchSpan batch, int64_t row) const;

  std::optional<Tokenizer> tokenizer_;
  TokenStream train_, val_;
  std::vector<std::string> notes_;
  int64_t context_, global_batch_, vocab_ = 0;
  std::shared_ptr<const TokenSource> source_;  // for training
  std::optional<Masking> masking_;             // only with train.objective: masked
  std::optional<PairLayout> pairs_;            // only with train.objective: pairs
};

// Whether data.tokenizer tells which tokenizer made the token shards: it names a file, or it is bytes and model.vocab
// fits. Bytes is the default, so the name by itself tells nothing.
bool NamesTokenizerOfShards(const Config& config);
// Returns what Dataset::tokenizer_vocab() is for a config's data in this tokenizer.
int64_t KindsOf(const Config& config, const Tokenizer& tokenizer);
// Returns an error for keys that have no meaning with token shards, and for missing ones.
absl::Status CheckShardKeys(const Config& config);

// Returns how many of n characters or tokens come before the tail that a fraction of data.val cuts off.
int64_t HeadLength(int64_t n, double fraction);
// Returns the byte offset of the tail. It is counted in characters, so that the tail does not depend on the tokenizer.
size_t TailBegin(std::string_view text, double fraction);

}  // namespace weft
