#include "weft/train/data/data.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "weft/core/base/rng.h"
#include "weft/core/host/utf8.h"
#include "weft/train/config/config_check.h"
#include "weft/train/data/documents.h"
#include "weft/train/data/source/mixture_source.h"
#include "weft/train/data/source/stream_source.h"
#include "weft/train/data/source/synthetic_source.h"
#include "weft/train/io/bad_input.h"

namespace weft {
namespace {

absl::Status RefuseOtherFormat(const Config& config, const DataFormat& train, const DataFormat& val) {
  auto [first, second] = std::minmax({&train, &val});  // in the order of the table
  return RefuseKey(config, "data.val",
                   fmt::format("expected {}, as data.train is, got {}; give both as {} or both as {}", train.name,
                               val.name, first->name, second->name));
}

// Encodes each file by itself. Returns the error of the first file that the tokenizer refuses, with its name and
// position, or OK if it accepts each.
absl::Status FaultOfFile(const Tokenizer& tokenizer, const std::string& field, const DataFiles& files) {
  for (const std::string& path : files.paths) {
    absl::StatusOr<Documents> documents = ReadDocuments({path}, field);
    if (!documents.ok()) return documents.status();
    if (absl::Status s = EncodeDocuments(tokenizer, *documents).status(); absl::IsInvalidArgument(s))
      return BadInput(path, s.message());
  }
  return absl::OkStatus();
}

// Pairs are counted, not characters, so that none is cut.
size_t TailOf(const Config& config, const Documents& documents, double fraction) {
  if (config.train.objective != TrainObjective::kPairs) return TailBegin(documents.text, fraction);
  auto head = size_t(HeadLength(int64_t(documents.begins.size()), fraction));
  return head < documents.begins.size() ? documents.begins[head] : documents.text.size();
}

}  // namespace

int64_t HeadLength(int64_t n, double fraction) { return int64_t(std::floor(double(n) * (1 - fraction))); }

size_t TailBegin(std::string_view text, double fraction) {
  int64_t head = HeadLength(int64_t(CountCodePoints(text)), fraction);
  return SkipCodePoints(text, head);
}

// A source of training data while it is loaded.
struct Dataset::Part {
  DataFiles files;
  std::string field;
  double weight;
  Documents documents = {};  // of text; cleared when it is encoded
  TokenStream tokens = {};
};

Dataset::Dataset(const Config& config) : context_(config.model.context), global_batch_(config.train.global_batch) {}

absl::StatusOr<Dataset> Dataset::Load(const Config& config, const DataOptions& options) {
  Dataset dataset(config);
  if (config.data.synthetic) {
    // Synthetic data has no text for chars, so that becomes bytes.
    if (absl::Status s = dataset.OpenTokenizer(config); !s.ok()) return s;
    bool masked = config.train.objective == TrainObjective::kMasked;
    bool pairs = config.train.objective == TrainObjective::kPairs;
    int64_t more = masked ? 1 : pairs ? 2 : 0;  // the mask, or the end and the padding of texts
    int64_t kinds = config.model.vocab > 0 ? std::max<int64_t>(config.model.vocab - more, 1) : dataset.vocab_;
    if (masked) dataset.masking_.emplace(uint64_t(config.train.seed), int32_t(kinds), kinds);
    if (pairs) dataset.pairs_ = PairLayoutOf(config.model, kinds, std::nullopt);
    dataset.vocab_ = std::max(dataset.vocab_, kinds + more);
    dataset.source_ = std::make_shared<SyntheticSource>(dataset.context_, kinds, config.train.seed);
    return dataset;
  }
  bool own_files = !config.data.val.paths.empty(), own_table = options.tokenizer || config.data.tokenizer != "chars";
  bool with_train = options.train || !own_files || !own_table;
  absl::StatusOr<std::vector<Part>> parts = with_train ? FindParts(config) : std::vector<Part>();
  if (!parts.ok()) return parts.status();
  absl::StatusOr<DataFiles> val = own_files ? FindDataFiles(config.data.val.paths) : DataFiles();
  if (!val.ok()) return RefuseKey(config, "data.val", val.status().message());
  const DataFormat& format = with_train ? *parts->front().files.format : *val->format;
  if (config.train.objective == TrainObjective::kPairs && format.holds_tokens())
    return RefuseKey(config, "data.train",
                     "expected JSONL with a source and a target in each record, got token shards");
  if (own_files && val->format != &format) return RefuseOtherFormat(config, format, *val->format);
  absl::Status status = format.holds_tokens() ? dataset.LoadTokens(config, *parts, *val, options.tokenizer)
                                              : dataset.LoadText(config, *parts, *val, options.tokenizer);
  if (status.ok()) status = dataset.CheckLengths(config, *parts);
  if (!status.ok()) return status;
  for (const Part& part : *parts) {
    dataset.train_.Append(part.tokens);
    if (std::string shared = NoteOfShared(part.files, *val); !shared.empty())
      dataset.notes_.push_back(PlaceOf(config, "data.val") + shared);
  }
  if (with_train) dataset.source_ = dataset.MakeSource(config, *parts);
  if (config.train.objective == TrainObjective::kMasked)
    if (absl::Status s = dataset.ChooseMask(config); !s.ok()) return s;
  return dataset;
}

// Uses the tokenizer's own mask token, or else the id after its last. For token shards, uses the last id of
// model.vocab.
absl::Status Dataset::ChooseMask(const Config& config) {
  int64_t kinds = tokenizer_ ? tokenizer_->vocab() : vocab_ - 1;
  int64_t mask = tokenizer_ ? tokenizer_->mask().value_or(int32_t(kinds)) : kinds;
  for (const TokenStream* stream : {&train_, &val_})
    if (TokenSummary summary = Summarize(*stream); !tokenizer_ && summary.largest >= mask)
      return RefuseKey(
          config, "model.vocab",
          fmt::format("expected a number above the largest token of the shards, {}, for what is masked, got "
                      "{}; raise it by one",
                      summary.largest, config.model.vocab));
  vocab_ = std::max(vocab_, mask + 1);
  masking_.emplace(uint64_t(config.train.seed), int32_t(mask), kinds);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Dataset::Part>> Dataset::FindParts(const Config& config) {
  std::vector<Part> parts;
  auto add = [&](const PathList& paths, double weight, const std::string& field) {
    absl::StatusOr<DataFiles> files = FindDataFiles(paths);
    if (!files.ok()) return RefuseKey(config, "data.train", files.status().message());
    const DataFormat& first = parts.empty() ? *files->format : *parts[0].files.format;
    if (files->format != &first)
      return RefuseKey(config, "data.train",
                       fmt::format("{}: expected {}, as the first source is, got {}; give all sources in one form",
                                   files->paths[0], first.name, files->format->name));
    const std::string& text = field.empty() ? config.data.field : field;
    if (config.train.objective != TrainObjective::kPairs && text.find(kPairOfFields) != text.npos)
      return RefuseKey(config, field.empty() ? "data.field" : "data.train",
                       fmt::format("expected one field, got {:?}; two are for train.objective: pairs", text));
    parts.push_back({*std::move(files), text, weight});
    return absl::OkStatus();
  };
  for (const MixturePart& part : config.data.mixture)
    if (absl::Status s = add(part.paths, part.weight, part.field); !s.ok()) return s;
  if (parts.empty())
    if (absl::Status s = add(config.data.train, 1, ""); !s.ok()) return s;
  return parts;
}

void Dataset::UseTokenizer(Tokenizer tokenizer) {
  vocab_ = tokenizer.vocab();
  tokenizer_ = std::move(tokenizer);
}

absl::Status Dataset::OpenTokenizer(const Config& config) {
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Open(config.data.tokenizer);
  if (!tokenizer.ok()) return RefuseKey(config, "data.tokenizer", tokenizer.status().message());
  UseTokenizer(*std::move(tokenizer));
  return absl::OkStatus();
}

absl::Status Dataset::LoadText(const Config& config, std::vector<Part>& parts, const DataFiles& val_files,
                               const Tokenizer* tokenizer) {
  for (Part& part : parts) {
    absl::StatusOr<Documents> documents = ReadDocuments(part.files.paths, part.field);
    if (!documents.ok()) return RefuseKey(config, "data.train", documents.status().message());
    NoteSkipped(config, "data.train", part.files, documents->skipped);
    part.documents = *std::move(documents);
  }
  absl::StatusOr<Documents> val = ReadDocuments(val_files.paths, config.data.field);
  if (!val.ok()) return RefuseKey(config, "data.val", val.status().message());
  NoteSkipped(config, "data.val", val_files, val->skipped);
  if (double fraction = config.data.val.fraction; fraction > 0)
    for (Part& part : parts) val->Append(part.documents.CutTail(TailOf(config, part.documents, fraction)));
  if (tokenizer) {
    UseTokenizer(*tokenizer);
  } else if (config.data.tokenizer == "chars") {
    std::vector<std::string_view> texts = {val->text};
    for (const Part& part : parts) texts.push_back(part.documents.text);
    UseTokenizer(Tokenizer::Chars(texts));
  } else if (absl::Status s = OpenTokenizer(config); !s.ok()) {
    return s;
  }
  return EncodeText(config, parts, val_files, *std::move(val));
}

absl::StatusOr<std::vector<int32_t>> Dataset::Encode(const Documents& documents) const {
  return pairs_ ? EncodePairs(*tokenizer_, documents, *pairs_) : EncodeDocuments(*tokenizer_, documents);
}

absl::Status Dataset::EncodeText(const Config& config, std::vector<Part>& parts, const DataFiles& val_files,
                                 Documents val) {
  if (config.train.objective == TrainObjective::kPairs) {
    pairs_ = PairLayoutOf(config.model, tokenizer_->vocab(), tokenizer_->end_of_text());
    vocab_ = std::max(vocab_, pairs_->kinds());
  }
  auto encode = [&](const char* key, Documents documents, TokenStream& out) {
    absl::StatusOr<std::vector<int32_t>> tokens = Encode(documents);
    if (absl::IsResourceExhausted(tokens.status()) || absl::IsOutOfRange(tokens.status()))
      return RefuseKey(config, key, tokens.status().message());
    if (!tokens.ok()) {
      absl::Status fault = FaultOfFile(*tokenizer_, config.data.field, val_files);
      for (auto part = parts.rbegin(); part != parts.rend(); ++part)
        if (absl::Status s = FaultOfFile(*tokenizer_, part->field, part->files); !s.ok()) fault = s;
      if (fault.ok()) fault = tokens.status();
      return RefuseKey(config, "data.tokenizer",
                       std::string(fault.message()) + "; give the one that was made with this text");
    }
    out = TokenStream(*std::move(tokens));
    return absl::OkStatus();
  };
  for (Part& part : parts)
    if (absl::Status s = encode("data.train", std::exchange(part.documents, {}), part.tokens); !s.ok()) return s;
  return encode("data.val", std::move(val), val_);
}

void Dataset::NoteSkipped(const Config& config, const char* key, const DataFiles& files, const SkipCount& more) {
  SkipCount skipped = files.skipped;
  skipped.Add(more);
  if (std::string note = skipped.Note(); !note.empty()) notes_.push_back(PlaceOf(config, key) + note);
}

absl::Status Dataset::LoadTokens(const Config& config, std::vector<Part>& parts, const DataFiles& val_files,
                                 const Tokenizer* tokenizer) {
  if (tokenizer) {
    UseTokenizer(*tokenizer);
  } else if (absl::Status s = CheckShardKeys(config); !s.ok()) {
    return s;
  } else if (NamesTokenizerOfShards(config)) {
    if (s = OpenTokenizer(config); !s.ok()) return s;
  }
  vocab_ = std::max(vocab_, config.model.vocab);
  for (Part& part : parts) {
    absl::StatusOr<TokenStream> tokens = part.files.format->open(part.files.paths);
    if (!tokens.ok()) return RefuseKey(config, "data.train", tokens.status().message());
    part.tokens = *std::move(tokens);
    if (double fraction = config.data.val.fraction; fraction > 0)
      val_.Append(part.tokens.CutTail(HeadLength(part.tokens.size(), fraction)));
  }
  if (!val_files.paths.empty()) {
    absl::StatusOr<TokenStream> tokens = val_files.format->open(val_files.paths);
    if (!tokens.ok()) return RefuseKey(config, "data.val", tokens.status().message());
    val_ = *std::move(tokens);
  }
  return CheckTokens(config, parts);
}

absl::Status Dataset::CheckTokens(const Config& config, const std::vector<Part>& parts) const {
  std::vector<const TokenStream*> streams = {&val_};
  for (const Part& part : parts) streams.push_back(&part.tokens);
  // Summaries read samples of large shards; the batches check every token.
  for (const TokenStream* stream : streams) {
    TokenSummary summary = Summarize(*stream);
    if (absl::Status s = stream->Fault(0, stream->size()); !s.ok()) return RefuseKey(config, "data", s.message());
    if (summary.largest >= vocab_)
      return RefuseKey(config, "model.vocab", TokenFault(*stream, summary.largest_at, vocab_));
  }
  return absl::OkStatus();
}

int64_t Dataset::tokenizer_vocab() const {
  int64_t kinds = tokenizer_ ? tokenizer_->vocab() : vocab_;
  if (pairs_) return std::max(kinds, pairs_->kinds());
  return masking_ ? std::max(kinds, int64_t(masking_->mask()) + 1) : kinds;
}

int64_t KindsOf(const Config& config, const Tokenizer& tokenizer) {
  if (config.train.objective == TrainObjective::kPairs && !(config.data.synthetic && config.model.vocab > 0))
    return PairLayoutOf(config.model, tokenizer.vocab(), tokenizer.end_of_text()).kinds();
  // For synthetic data the last kind of a given model.vocab is the mask.
  bool has_mask = tokenizer.mask() || (config.data.synthetic && config.model.vocab > 0);
  return tokenizer.vocab() + int64_t(config.train.objective == TrainObjective::kMasked && !has_mask);
}

bool NamesTokenizerOfShards(const Config& config) {
  const std::string& name = config.data.tokenizer;
  return Tokenizer::HasFile(name) || (name == "bytes" && config.model.vocab == Tokenizer::Bytes().vocab());
}

absl::Status CheckShardKeys(const Config& config) {
  if (Tokenizer::HasFile(config.data.tokenizer)) return absl::OkStatus();
  if (config.data.tokenizer != DataConfig().tokenizer)
    return RefuseKey(
        config, "data.tokenizer",
        fmt::format("has no meaning for token shards, got {0}; remove it, or give {0}:PATH, the table that "
                    "they were made with",
                    config.data.tokenizer));
  if (config.model.vocab < 1)
    return RefuseKey(
        config, "model.vocab",
        "is required with token shards, which do not say it; add it, e.g. 50257 for the tokens of GPT-2 or "
        "128256 for those of Llama 3");
  int64_t bytes = Tokenizer::Bytes().vocab();
  if (FromCommandLine(config, "data.tokenizer") && config.model.vocab != bytes)
    return RefuseKey(config, "data.tokenizer",
                     fmt::format("bytes has {} kinds of token, but model.vocab is {}: these shards are another "
                                 "tokenizer's; remove it, or give that one's file",
                                 bytes, config.model.vocab));
  return absl::OkStatus();
}

absl::Status Dataset::CheckLengths(const Config& config, const std::vector<Part>& parts) const {
  const char* more = (parts.empty() ? val_ : parts[0].tokens).mapped() ? "shards" : "text";
  for (const Part& part : parts) {
    if (part.tokens.size() > context_) continue;
    std::string where = config.data.mixture.empty() ? "" : " in the source of " + part.files.paths[0];
    bool by_val = config.data.val.fraction > 0 && part.tokens.size() + val_.size() > context_;
    return RefuseKey(
        config, "data.train",
        fmt::format("expected at least context + 1 = {} tokens, got {}{}; give more {} or a smaller "
                    "model.context{}",
                    context_ + 1, part.tokens.size(), where, more, by_val ? ", or a smaller data.val" : ""));
  }
  if (!config.data.val.empty() && val_.size() < 2) {
    return RefuseKey(config, "data.val",
                     fmt::format("expected at least 2 tokens, got {}; give more {}", val_.size(), more));
  }
  return absl::OkStatus();
}

std::shared_ptr<const TokenSource> Dataset::MakeSource(const Config& config, const std::vector<Part>& parts) const {
  auto key = [&](const char* name, uint64_t ordinal) {
    return RandomKey(uint64_t(config.train.seed), RandomPhase::kData, name, ordinal);
  };
  StreamSource::Options options{.context = context_, .vocab = vocab_, .shuffle = config.data.shuffle};
  if (pairs_) options.unit = pairs_->size();
  options.key = key("offset", 0);
  if (config.data.mixture.empty()) return std::make_shared<StreamSource>(parts[0].tokens, options);
  std::vector<MixtureSource::Part> sources;
  for (const Part& part : parts) {
    options.key = key("offset", 1 + sources.size());
    sources.push_back({std::make_unique<StreamSource>(part.tokens, options), part.weight});
  }
  return std::make_shared<MixtureSource>(std::move(sources), key("source", 0));
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
    BatchSpan out = RowOf(batch, r);
    auto filled = size_t(source_->Fill(at, row, out));
    if (pairs_)
      count += KeepTargets(*pairs_, out.targets);
    else
      count +=
          masking_ ? masking_->Train(step, row, out.tokens.first(filled), out.targets.first(filled)) : int64_t(filled);
    source_->Skip(1, at);
  }
  return count;
}

int64_t Dataset::eval_windows() const {
  if (pairs_) return val_.size() / pairs_->size();
  return val_.size() < 2 ? 0 : (val_.size() - 2) / context_ + 1;
}

int64_t Dataset::FillEval(int64_t first_window, int64_t end_window, BatchSpan batch) const {
  const TokenStream none;
  int64_t rows = int64_t(batch.tokens.size()) / context_, count = 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t window = first_window + r;
    bool counts = window < end_window;
    BatchSpan out = RowOf(batch, r);
    int64_t apart = pairs_ ? pairs_->size() : context_;  // between the begins of two windows
    auto filled = size_t(FillRow(counts ? val_ : none, counts ? window * apart : 0, vocab_, out));
    if (pairs_)
      count += KeepTargets(*pairs_, out.targets);
    else
      count +=
          masking_ ? masking_->Evaluate(window, out.tokens.first(filled), out.targets.first(filled)) : int64_t(filled);
  }
  return count;
}

std::optional<int64_t> Dataset::EvalBytes(int64_t windows) const {
  if (!tokenizer_ || masking_ || pairs_) return std::nullopt;
  int64_t end = std::min(windows * context_ + 1, val_.size()), bytes = 0, first = 0;
  const std::vector<int32_t>& begin = tokenizer_->begin();
  while (first < std::min(int64_t(begin.size()), end) && val_[first] == begin[size_t(first)]) first++;  // not text
  bool begins = true;
  for (int64_t i = first; i < end; i++) {
    auto size = int64_t(tokenizer_->TextOf(val_[i], begins).size());
    if (val_[i] == tokenizer_->end_of_text()) size = 0;  // separates documents, so it is not text
    bytes += i > 0 ? size : 0;
  }
  return bytes;
}

}  // namespace weft
