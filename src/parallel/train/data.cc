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

BatchSpan Dataset::RowOf(BatchSpan batch, int64_t row) const {
  auto c = size_t(context_), begin = size_t(row) * c;
  return {batch.tokens.subspan(begin, c), batch.targets.subspan(begin, c)};
}

int64_t Dataset::FillTrain(int64_t step, int64_t first_row, BatchSpan batch) const {
  int64_t rows = int64_t(batch.tokens.size()) / context_, count = 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t row = first_row + r;
    if (row >= global_batch_) {
      count += FillText({}, 0, RowOf(batch, r));
    } else if (synthetic_vocab_ > 0) {
      count += FillSynthetic(step, row, RowOf(batch, r));
    } else {
      count += FillText(train_, TrainOffset(step, row), RowOf(batch, r));
    }
  }
  return count;
}

int64_t Dataset::eval_windows() const { return val_.size() < 2 ? 0 : (int64_t(val_.size()) - 2) / context_ + 1; }

int64_t Dataset::FillEval(int64_t first_window, int64_t end_window, BatchSpan batch) const {
  int64_t rows = int64_t(batch.tokens.size()) / context_, count = 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t window = first_window + r;
    count +=
        window < end_window ? FillText(val_, window * context_, RowOf(batch, r)) : FillText({}, 0, RowOf(batch, r));
  }
  return count;
}

int64_t Dataset::EvalBytes(int64_t windows) const {
  int64_t end = std::min(windows * context_ + 1, int64_t(val_.size())), bytes = 0;
  for (int64_t i = 1; i < end; i++) bytes += tokenizer_.BytesOf(val_[size_t(i)]);
  return bytes;
}

int64_t Dataset::FillText(const TokenStream& stream, int64_t begin, BatchSpan out) const {
  int64_t targets = std::clamp<int64_t>(int64_t(stream.size()) - begin - 1, 0, context_);
  auto from = stream.begin() + std::min<int64_t>(begin, int64_t(stream.size()));
  std::fill(std::copy_n(from, targets, out.tokens.begin()), out.tokens.end(), 0);
  if (targets > 0) std::copy_n(from + 1, targets, out.targets.begin());
  std::fill(out.targets.begin() + targets, out.targets.end(), kIgnoredTarget);
  return targets;
}

int64_t Dataset::FillSynthetic(int64_t step, int64_t row, BatchSpan out) const {
  int64_t blocks = (context_ + 1 + 3) / 4, i = 0;  // i: in the sequence of C + 1 tokens
  for (int64_t block = 0; block < blocks; block++) {
    for (uint32_t bits : Philox(synthetic_key_, uint64_t(step), uint64_t(row * blocks + block))) {
      auto token = int32_t(Below(synthetic_vocab_, uint64_t(bits) << 32));
      if (i < context_) out.tokens[size_t(i)] = token;
      if (i > 0 && i <= context_) out.targets[size_t(i - 1)] = token;
      i++;
    }
  }
  return context_;
}

}  // namespace weft
