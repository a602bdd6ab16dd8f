// Dataset: which tokens each sequence of each step holds, as a function of (seed, step, global row) alone.
//
//   dataset.FillTrain(step, first_row, batch);      // the same rows on any mesh
//   for (int64_t w = 0; w < dataset.eval_windows(); w += rows) dataset.FillEval(w, dataset.eval_windows(), batch);
//
// Legend: C the context, n the length of a token stream.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/config/config.h"
#include "weft/train/data/data_files.h"
#include "weft/train/data/source/masking.h"
#include "weft/train/data/source/token_source.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

struct Documents;

struct DataOptions {
  const Tokenizer* tokenizer = nullptr;  // null: the one that the config names, chars from the texts at hand
  bool train = true;                     // false: validation alone, where it has files of its own
};

class Dataset {
 public:
  // Reads what config.data names. Errors carry the place of the key that is at fault.
  static absl::StatusOr<Dataset> Load(const Config& config, const DataOptions& options = {});

  const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }  // null where shards have none
  int64_t tokenizer_vocab() const { return tokenizer_ ? tokenizer_->vocab() : vocab_; }
  // The tokenizer's; of token shards, model.vocab where that is more. With train.objective: masked one more for the
  // mask where the tokenizer has none of its own.
  int64_t vocab() const { return vocab_; }
  const TokenStream& train() const { return train_; }                          // of all sources
  size_t num_sources() const { return source_ ? source_->num_sources() : 0; }  // of a mixture; 0: there is none
  uint64_t source_hash() const { return source_ ? source_->Hash() : 0; }       // as TokenSource::Hash
  const TokenStream& val() const { return val_; }
  int64_t HeldBytes() const { return train_.HeldBytes() + val_.HeldBytes(); }  // of memory, by the tokens of text
  const std::vector<std::string>& notes() const { return notes_; }  // for people, on what is odd and not wrong

  // These fill a batch and give the number of its targets that are not ignored; they allocate nothing. They throw Error
  // for a token of a shard that is not below model.vocab.
  // Rows of the global batch of `step` (from 0, and not before `from`), from first_row on. Rows behind the last are all
  // ignored.
  int64_t FillTrain(int64_t step, int64_t first_row, BatchSpan batch, const DataPosition& from = {}) const;
  // Where a run that was at `from` is after `step` steps. Takes time proportional to the sequences between at most.
  DataPosition PositionAfter(int64_t step, const DataPosition& from) const;

  // The validation text is cut into windows of C targets; every token but the first is a target exactly once.
  int64_t eval_windows() const;  // 0 without validation text
  // Windows from first_window on. Those from end_window on, and those behind the last, are all ignored.
  int64_t FillEval(int64_t first_window, int64_t end_window, BatchSpan batch) const;
  // The bytes of text that the targets of the first `windows` windows stand for; unknown without a tokenizer,
  // and where targets are masked tokens.
  std::optional<int64_t> EvalBytes(int64_t windows) const;

 private:
  explicit Dataset(const Config& config);
  void UseTokenizer(Tokenizer tokenizer);
  absl::Status OpenTokenizer(const Config& config);
  absl::Status ChooseMask(const Config& config);
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
  std::shared_ptr<const TokenSource> source_;  // of training
  std::optional<Masking> masking_;             // train.objective: masked
};

// Whether data.tokenizer says what token shards were made with: it names a file, or bytes and the model has just as
// many kinds of token. Bytes are the default, so that the word alone says nothing.
bool NamesTokenizerOfShards(const Config& config);
// Refuses what has no meaning beside token shards, and what is missing there.
absl::Status CheckShardKeys(const Config& config);

// How many of n characters or tokens come before the tail that a fraction of data.val cuts off.
int64_t HeadLength(int64_t n, double fraction);
// The text behind the head of its characters: the same characters whatever the tokenizer.
size_t TailBegin(std::string_view text, double fraction);

}  // namespace weft
