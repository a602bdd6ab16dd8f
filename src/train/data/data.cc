#include "weft/train/data/data.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "weft/core/base/rng.h"
#include "weft/core/host/utf8.h"
#include "weft/train/config/config_check.h"
#include "weft/train/data/documents.h"
#include "weft/train/data/stream_source.h"
#include "weft/train/data/synthetic_source.h"

namespace weft {
namespace {

absl::Status Refuse(const Config& config, const std::string& key, const std::string& what) {
  return absl::InvalidArgumentError(PlaceOf(config, key) + what);
}

absl::Status Refuse(const Config& config, const std::string& key, const absl::Status& status) {
  return Refuse(config, key, std::string(status.message()));
}

absl::Status RefuseOtherFormat(const Config& config, const DataFormat& train, const DataFormat& val) {
  auto [first, second] = std::minmax({&train, &val});  // as the table has them
  return Refuse(config, "data.val",
                fmt::format("expected {}, as data.train is, got {}; give both as {} or both as {}", train.name,
                            val.name, first->name, second->name));
}

// What is wrong with the first of the files that the tokenizer cannot take, with its name and the place in it; OK where
// it takes each by itself.
absl::Status FaultOfFile(const Tokenizer& tokenizer, const std::string& field,
                         std::initializer_list<const DataFiles*> lists) {
  for (const DataFiles* files : lists)
    for (const std::string& path : files->paths) {
      absl::StatusOr<Documents> documents = ReadDocuments({path}, field);
      if (!documents.ok()) return documents.status();
      if (absl::Status s = EncodeDocuments(tokenizer, *documents).status(); absl::IsInvalidArgument(s))
        return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(s.message())));
    }
  return absl::OkStatus();
}

}  // namespace

int64_t HeadLength(int64_t n, double fraction) { return int64_t(std::floor(double(n) * (1 - fraction))); }

size_t TailBegin(std::string_view text, double fraction) {
  int64_t head = HeadLength(int64_t(CountCodePoints(text)), fraction);
  return SkipCodePoints(text, head);
}

Dataset::Dataset(const Config& config) : context_(config.model.context), global_batch_(config.train.global_batch) {}

absl::StatusOr<Dataset> Dataset::Load(const Config& config, const DataOptions& options) {
  Dataset dataset(config);
  if (config.data.synthetic) {
    if (absl::Status s = dataset.OpenTokenizer(config); !s.ok()) return s;  // chars has no text: bytes
    int64_t kinds = config.model.vocab > 0 ? config.model.vocab : dataset.vocab_;
    dataset.source_ = std::make_shared<SyntheticSource>(dataset.context_, kinds, config.train.seed);
    return dataset;
  }
  bool own_files = !config.data.val.paths.empty(), own_table = options.tokenizer || config.data.tokenizer != "chars";
  bool with_train = options.train || !own_files || !own_table;
  absl::StatusOr<DataFiles> train = with_train ? FindDataFiles(config.data.train) : DataFiles();
  if (!train.ok()) return Refuse(config, "data.train", train.status());
  absl::StatusOr<DataFiles> val = own_files ? FindDataFiles(config.data.val.paths) : DataFiles{.format = train->format};
  if (!val.ok()) return Refuse(config, "data.val", val.status());
  if (!with_train) train->format = val->format;
  if (val->format != train->format) return RefuseOtherFormat(config, *train->format, *val->format);
  absl::Status status = train->format->holds_tokens() ? dataset.LoadTokens(config, *train, *val, options.tokenizer)
                                                      : dataset.LoadText(config, *train, *val, options.tokenizer);
  if (status.ok()) status = dataset.CheckLengths(config, with_train);
  if (!status.ok()) return status;
  if (with_train) dataset.source_ = dataset.MakeSource(config);
  if (std::string shared = NoteOfShared(*train, *val); !shared.empty())
    dataset.notes_.push_back(PlaceOf(config, "data.val") + shared);
  return dataset;
}

void Dataset::UseTokenizer(Tokenizer tokenizer) {
  vocab_ = tokenizer.vocab();
  tokenizer_ = std::move(tokenizer);
}

absl::Status Dataset::OpenTokenizer(const Config& config) {
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Open(config.data.tokenizer);
  if (!tokenizer.ok()) return Refuse(config, "data.tokenizer", tokenizer.status());
  UseTokenizer(*std::move(tokenizer));
  return absl::OkStatus();
}

absl::Status Dataset::LoadText(const Config& config, const DataFiles& train_files, const DataFiles& val_files,
                               const Tokenizer* tokenizer) {
  absl::StatusOr<Documents> train = ReadDocuments(train_files.paths, config.data.field);
  if (!train.ok()) return Refuse(config, "data.train", train.status());
  absl::StatusOr<Documents> val = ReadDocuments(val_files.paths, config.data.field);
  if (!val.ok()) return Refuse(config, "data.val", val.status());
  NoteSkipped(config, "data.train", train_files, train->skipped);
  NoteSkipped(config, "data.val", val_files, val->skipped);
  if (double fraction = config.data.val.fraction; fraction > 0) val = train->CutTail(TailBegin(train->text, fraction));
  if (tokenizer) {
    UseTokenizer(*tokenizer);
  } else if (config.data.tokenizer == "chars") {
    UseTokenizer(Tokenizer::Chars({train->text, val->text}));
  } else if (absl::Status s = OpenTokenizer(config); !s.ok()) {
    return s;
  }
  for (auto [from, to, key] : {std::tuple(&*train, &train_, "data.train"), std::tuple(&*val, &val_, "data.val")}) {
    absl::StatusOr<std::vector<int32_t>> tokens = EncodeDocuments(*tokenizer_, *from);
    if (absl::IsResourceExhausted(tokens.status())) return Refuse(config, key, tokens.status());
    if (!tokens.ok()) {
      absl::Status fault = FaultOfFile(*tokenizer_, config.data.field, {&train_files, &val_files});
      if (fault.ok()) fault = tokens.status();
      return Refuse(config, "data.tokenizer",
                    std::string(fault.message()) + "; give the one that was made with this text");
    }
    *to = TokenStream(*std::move(tokens));
    *from = {};
  }
  return absl::OkStatus();
}

void Dataset::NoteSkipped(const Config& config, const char* key, const DataFiles& files, const SkipCount& more) {
  SkipCount skipped = files.skipped;
  skipped.Add(more);
  if (std::string note = skipped.Note(); !note.empty()) notes_.push_back(PlaceOf(config, key) + note);
}

absl::Status Dataset::LoadTokens(const Config& config, const DataFiles& train_files, const DataFiles& val_files,
                                 const Tokenizer* tokenizer) {
  if (tokenizer) {
    UseTokenizer(*tokenizer);
  } else if (absl::Status s = CheckShardKeys(config); !s.ok()) {
    return s;
  } else if (NamesTokenizerOfShards(config)) {
    if (s = OpenTokenizer(config); !s.ok()) return s;
  }
  vocab_ = std::max(vocab_, config.model.vocab);
  const DataFormat& format = *train_files.format;
  absl::StatusOr<TokenStream> train = format.open(train_files.paths), val = format.open(val_files.paths);
  if (!train.ok()) return Refuse(config, "data.train", train.status());
  if (!val.ok()) return Refuse(config, "data.val", val.status());
  if (double fraction = config.data.val.fraction; fraction > 0)
    val = train->CutTail(HeadLength(train->size(), fraction));
  train_ = *std::move(train);
  val_ = *std::move(val);
  // What this does not see, the batches do.
  for (const TokenStream* stream : {&train_, &val_}) {
    TokenSummary summary = Summarize(*stream);
    if (absl::Status s = stream->Fault(0, stream->size()); !s.ok()) return Refuse(config, "data", s);
    if (summary.largest >= vocab_)
      return Refuse(config, "model.vocab", TokenFault(*stream, summary.largest_at, vocab_));
  }
  return absl::OkStatus();
}

bool NamesTokenizerOfShards(const Config& config) {
  const std::string& name = config.data.tokenizer;
  return Tokenizer::HasFile(name) || (name == "bytes" && config.model.vocab == Tokenizer::Bytes().vocab());
}

absl::Status CheckShardKeys(const Config& config) {
  if (Tokenizer::HasFile(config.data.tokenizer)) return absl::OkStatus();
  if (config.data.tokenizer != DataConfig().tokenizer)
    return Refuse(config, "data.tokenizer",
                  fmt::format("has no meaning for token shards, got {0}; remove it, or give {0}:PATH, the table that "
                              "they were made with",
                              config.data.tokenizer));
  if (config.model.vocab < 1)
    return Refuse(config, "model.vocab",
                  "is required with token shards, which do not say it; add it, e.g. 50257 for the tokens of GPT-2 or "
                  "128256 for those of Llama 3");
  int64_t bytes = Tokenizer::Bytes().vocab();
  if (FromCommandLine(config, "data.tokenizer") && config.model.vocab != bytes)
    return Refuse(config, "data.tokenizer",
                  fmt::format("bytes has {} kinds of token, but model.vocab is {}: these shards are another "
                              "tokenizer's; remove it, or give that one's file",
                              bytes, config.model.vocab));
  return absl::OkStatus();
}

absl::Status Dataset::CheckLengths(const Config& config, bool train) const {
  const char* more = train_.mapped() || val_.mapped() ? "shards" : "text";
  if (train && train_.size() <= context_) {
    return Refuse(config, "data.train",
                  fmt::format("expected at least context + 1 = {} tokens, got {}; give more {} or a smaller "
                              "model.context",
                              context_ + 1, train_.size(), more));
  }
  if (!config.data.val.empty() && val_.size() < 2) {
    return Refuse(config, "data.val",
                  fmt::format("expected at least 2 tokens, got {}; give more {}", val_.size(), more));
  }
  return absl::OkStatus();
}

std::shared_ptr<const TokenSource> Dataset::MakeSource(const Config& config) const {
  uint64_t key = RandomKey(uint64_t(config.train.seed), RandomPhase::kData, "offset", 0);
  return std::make_shared<StreamSource>(
      train_, StreamSource::Options{.context = context_, .vocab = vocab_, .shuffle = config.data.shuffle, .key = key});
}

BatchSpan Dataset::RowOf(BatchSpan batch, int64_t row) const {
  auto c = size_t(context_), begin = size_t(row) * c;
  return {batch.tokens.subspan(begin, c), batch.targets.subspan(begin, c)};
}

DataPosition Dataset::PositionAfter(int64_t step, const DataPosition& from) const {
  DataPosition position = from;
  source_->Skip((step - from.step) * global_batch_, position);
  position.step = step;
  return position;
}

int64_t Dataset::FillTrain(int64_t step, int64_t first_row, BatchSpan batch, const DataPosition& from) const {
  int64_t rows = int64_t(batch.tokens.size()) / context_, count = 0;
  DataPosition at = PositionAfter(step, from);
  source_->Skip(std::min(first_row, global_batch_), at);
  for (int64_t r = 0; r < rows; r++) {
    int64_t row = first_row + r;
    if (row >= global_batch_) {
      count += FillRow({}, 0, vocab_, RowOf(batch, r));
      continue;
    }
    count += source_->Fill(at, row, RowOf(batch, r));
    source_->Skip(1, at);
  }
  return count;
}

int64_t Dataset::eval_windows() const { return val_.size() < 2 ? 0 : (val_.size() - 2) / context_ + 1; }

int64_t Dataset::FillEval(int64_t first_window, int64_t end_window, BatchSpan batch) const {
  const TokenStream none;
  int64_t rows = int64_t(batch.tokens.size()) / context_, count = 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t window = first_window + r;
    bool counts = window < end_window;
    count += FillRow(counts ? val_ : none, counts ? window * context_ : 0, vocab_, RowOf(batch, r));
  }
  return count;
}

std::optional<int64_t> Dataset::EvalBytes(int64_t windows) const {
  if (!tokenizer_) return std::nullopt;
  int64_t end = std::min(windows * context_ + 1, val_.size()), bytes = 0, first = 0;
  const std::vector<int32_t>& begin = tokenizer_->begin();
  while (first < std::min(int64_t(begin.size()), end) && val_[first] == begin[size_t(first)]) first++;  // no text
  bool begins = true;
  for (int64_t i = first; i < end; i++) {
    auto size = int64_t(tokenizer_->TextOf(val_[i], begins).size());
    if (val_[i] == tokenizer_->end_of_text()) size = 0;  // it stands between documents
    bytes += i > 0 ? size : 0;
  }
  return bytes;
}

}  // namespace weft
