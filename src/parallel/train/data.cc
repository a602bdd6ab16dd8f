#include "parallel/train/data.h"

#include <algorithm>
#include <cmath>

#include "core/base/rng.h"
#include "fmt/format.h"
#include "parallel/train/config_check.h"
#include "parallel/train/text_files.h"
#include "parallel/train/utf8.h"

namespace weft {
namespace {

absl::Status Refuse(const Config& config, const std::string& key, const std::string& what) {
  return absl::InvalidArgumentError(PlaceOf(config, key) + what);
}

absl::Status Refuse(const Config& config, const std::string& key, const absl::Status& status) {
  return Refuse(config, key, std::string(status.message()));
}

// A number below n from 64 random bits: the upper half of their product. The bias is n / 2^64.
int64_t Below(int64_t n, uint64_t bits) {
  __extension__ using Wide = unsigned __int128;
  return int64_t(Wide(bits) * Wide(n) >> 64);
}

}  // namespace

size_t TailBegin(std::string_view text, double fraction) {
  auto kept = size_t(std::floor(double(CountCodePoints(text)) * (1 - fraction)));
  size_t at = 0;
  for (size_t i = 0; i < kept; i++) NextCodePoint(text, at);
  return at;
}

Dataset::Dataset(const Config& config)
    : context_(config.model.context),
      global_batch_(config.train.global_batch),
      synthetic_vocab_(config.data.synthetic ? std::max<int64_t>(config.model.vocab, 0) : 0),
      offset_key_(RandomKey(uint64_t(config.train.seed), RandomPhase::kData, "offset", 0)),
      synthetic_key_(RandomKey(uint64_t(config.train.seed), RandomPhase::kData, "synthetic", 0)),
      shuffle_(config.data.shuffle) {
  if (config.data.synthetic && synthetic_vocab_ == 0) synthetic_vocab_ = tokenizer_.vocab();
}

absl::StatusOr<Dataset> Dataset::Load(const Config& config) {
  Dataset dataset(config);
  if (config.data.synthetic) return dataset;
  if (absl::Status status = dataset.LoadText(config); !status.ok()) return status;
  if (absl::Status status = dataset.CheckLengths(config); !status.ok()) return status;
  return dataset;
}

absl::Status Dataset::LoadText(const Config& config) {
  absl::StatusOr<std::string> text = ReadText(config.data.train);
  if (!text.ok()) return Refuse(config, "data.train", text.status());
  std::string val;
  if (const ValSource& source = config.data.val; !source.path.empty()) {
    absl::StatusOr<std::string> read = ReadText({source.path});
    if (!read.ok()) return Refuse(config, "data.val", read.status());
    val = std::move(*read);
  } else if (source.fraction > 0) {
    size_t begin = TailBegin(*text, source.fraction);
    val = text->substr(begin);
    text->resize(begin);
  }
  if (config.data.tokenizer == "chars") tokenizer_ = Tokenizer::Chars({*text, val});
  for (auto [from, to] : {std::pair(&*text, &train_), std::pair(&val, &val_)}) {
    absl::StatusOr<TokenStream> tokens = tokenizer_.Encode(*from);
    if (!tokens.ok()) return Refuse(config, "data.tokenizer", tokens.status());
    *to = std::move(*tokens);
  }
  return absl::OkStatus();
}

absl::Status Dataset::CheckLengths(const Config& config) const {
  if (int64_t(train_.size()) <= context_) {
    return Refuse(config, "data.train",
                  fmt::format("expected at least context + 1 = {} tokens, got {}; give more text "
                              "or a smaller model.context",
                              context_ + 1, train_.size()));
  }
  if (!config.data.val.empty() && val_.size() < 2) {
    return Refuse(config, "data.val", fmt::format("expected at least 2 tokens, got {}; give more text", val_.size()));
  }
  return absl::OkStatus();
}

int64_t Dataset::TrainOffset(int64_t step, int64_t row) const {
  int64_t last = int64_t(train_.size()) - context_ - 1;  // the last offset with a target for every token
  if (!shuffle_) {
    int64_t windows = last / context_ + 1;
    return (step * global_batch_ + row) % windows * context_;
  }
  std::array<uint32_t, 4> bits = Philox(offset_key_, uint64_t(step), uint64_t(row));
  return Below(last + 1, uint64_t(bits[0]) << 32 | bits[1]);
}

Batch Dataset::TrainBatch(int64_t step, int64_t first_row, int64_t rows) const {
  Batch batch{.rows = rows, .context = context_};
  for (int64_t row = first_row; row < first_row + rows; row++) {
    if (row >= global_batch_) {
      AddRow({}, 0, batch);
    } else if (synthetic_vocab_ > 0) {
      AddSynthetic(step, row, batch);
    } else {
      AddRow(train_, TrainOffset(step, row), batch);
    }
  }
  return batch;
}

int64_t Dataset::eval_windows() const { return val_.size() < 2 ? 0 : (int64_t(val_.size()) - 2) / context_ + 1; }

Batch Dataset::EvalBatch(int64_t first_window, int64_t rows) const {
  Batch batch{.rows = rows, .context = context_};
  for (int64_t w = first_window; w < first_window + rows; w++) AddRow(val_, w * context_, batch);
  return batch;
}

void Dataset::AddRow(const TokenStream& stream, int64_t begin, Batch& batch) const {
  int64_t n = int64_t(stream.size());
  for (int64_t i = begin; i < begin + context_; i++) {
    bool has_target = i + 1 < n;
    batch.tokens.push_back(has_target ? stream[size_t(i)] : 0);
    batch.targets.push_back(has_target ? stream[size_t(i + 1)] : kIgnoredTarget);
    batch.count += has_target;
    batch.bytes += has_target ? tokenizer_.BytesOf(stream[size_t(i + 1)]) : 0;
  }
}

void Dataset::AddSynthetic(int64_t step, int64_t row, Batch& batch) const {
  TokenStream sequence;  // [C + 1]
  int64_t blocks = (context_ + 1 + 3) / 4;
  for (int64_t block = 0; block < blocks; block++) {
    for (uint32_t bits : Philox(synthetic_key_, uint64_t(step), uint64_t(row * blocks + block))) {
      sequence.push_back(int32_t(Below(synthetic_vocab_, uint64_t(bits) << 32)));
    }
  }
  sequence.resize(size_t(context_ + 1));
  batch.tokens.insert(batch.tokens.end(), sequence.begin(), sequence.end() - 1);
  batch.targets.insert(batch.targets.end(), sequence.begin() + 1, sequence.end());
  batch.count += context_;
  batch.bytes += context_;
}

}  // namespace weft
