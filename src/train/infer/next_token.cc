#include "weft/train/infer/next_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/kv_cache.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/model_of.h"
#include "weft/train/data/pairs.h"

namespace weft {
namespace {

constexpr const char *kPast = "slot.past", *kSource = "slot.source";
std::string TokensSlot(int64_t tokens) { return fmt::format("slot.next.{}", tokens); }
std::string LastSlot(int64_t tokens) { return fmt::format("slot.last.{}", tokens); }

Sharding RowPlacement(const StepOptions& o) {
  return o.rows > 1 ? BatchPlacement(o.model.mesh) : Sharding(o.model.mesh.num_axes());
}

// Returns the logits of the last of at most `size` tokens per row; and of the first `best_of` the best one, and the sum
// of squares, which is not finite if one of them is not.
std::vector<NamedValue> NextLogits(Model& model, const StepOptions& o, int64_t size, int64_t best_of) {
  Var tokens = Leaf(TokensSlot(size), DType::kI32, {o.rows, size}, RowPlacement(o));  // [B, T]
  Var last = Leaf(LastSlot(size), DType::kI64, {o.rows}, RowPlacement(o));            // [B]
  Var logits = model.LastLogits(tokens, last);                                        // [B, 1, V]
  if (best_of == 0) return {{"logits", logits}};
  Var known = best_of < logits.dim(2) ? Slice(logits, 2, 0, best_of) : logits;  // [B, 1, best_of]
  return {{"logits", logits}, {"best", ArgMax(known, 2)}, {"squares", SumOfSquares(known)}};
}

std::vector<NamedValue> CachedLogits(Model& model, const StepOptions& o, int64_t size, int64_t best_of) {
  Var past = Leaf(kPast, DType::kI64, {o.rows}, RowPlacement(o));  // [B]
  KvCache cache(past, RowPlacement(o), o.tokens - o.source_tokens);
  std::vector<NamedValue> outputs = NextLogits(model, o, size, best_of);
  for (const NamedValue& write : cache.TakeWrites()) WriteEntry(write.name, write.value);
  return outputs;
}

// The first tokens of rows: the sources, and the tokens with which the targets begin.
EntryInfo SourceSlot(const StepOptions& o) {
  return {kSource, EntryKind::kSlot, DType::kI32, {o.rows, o.source_tokens + 1}, RowPlacement(o)};
}
std::vector<NamedValue> KeepSources(Model& model, const StepOptions& o) {
  EntryInfo slot = SourceSlot(o);
  KvCache cache(slot.sharding);
  model.KeepSource(Leaf(slot.name, slot.dtype, slot.shape, slot.sharding));
  for (const NamedValue& write : cache.TakeWrites()) WriteEntry(write.name, write.value);
  return {};
}

// Few, because each is a program. Targets begin with one token, and grow by one.
std::vector<int64_t> Sizes(const StepOptions& o) {
  constexpr int64_t kLargest = 512;
  if (o.source_tokens > 0) return {1};
  int64_t context = o.tokens;
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size < std::min(context, kLargest); size *= 8) sizes.push_back(size);
  sizes.push_back(std::min(context, kLargest));
  return sizes;
}

int64_t SameBeginning(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::mismatch(a.begin(), a.begin() + std::ptrdiff_t(std::min(a.size(), b.size())), b.begin()).first -
         a.begin();
}

// Sets `values` to one of `rows` equal parts of the tensor.
void SetToRow(std::vector<double>& values, const Tensor& tensor, size_t row, size_t rows) {
  values.resize(size_t(tensor.num_elements()) / rows);
  DispatchFloating(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = tensor.as<const T>() + row * values.size();
    for (size_t i = 0; i < values.size(); i++) values[i] = double(Compute<T>(from[i]));
  });
}

}  // namespace

StepOptions NextTokenOptions(const Config& config, DeviceKind device, int64_t rows) {
  StepOptions o = StepOptionsOf(config);
  o.rows = rows;
  o.tokens = config.model.context;
  if (config.train.objective == TrainObjective::kPairs) o.source_tokens = SourceContext(config.model);
  DType& compute = o.model.precision.compute;
  bool narrow = compute == DType::kBF16 || compute == DType::kF16;
  if (narrow && device == DeviceKind::kCpu && !FromCommandLine(config, "precision.compute")) compute = DType::kF32;
  return o;
}

std::vector<ForwardProgram> NextTokenPrograms(const StepOptions& o, bool cache, int64_t best_of) {
  std::vector<ForwardProgram> programs;
  for (int64_t size : cache ? Sizes(o) : std::vector<int64_t>{o.tokens}) {
    auto trace = [cache, size, best_of](Model& model, const StepOptions& options) {
      return (cache ? CachedLogits : NextLogits)(model, options, size, best_of);
    };
    Sharding rows = RowPlacement(o);
    programs.push_back({RandomPhase::kGenerate,
                        trace,
                        {{TokensSlot(size), EntryKind::kSlot, DType::kI32, {o.rows, size}, rows},
                         {LastSlot(size), EntryKind::kSlot, DType::kI64, {o.rows}, rows}},
                        size});
    if (cache) programs.back().slots.push_back({kPast, EntryKind::kSlot, DType::kI64, {o.rows}, rows});
  }
  if (cache && o.source_tokens > 0)
    programs.push_back({RandomPhase::kGenerate, KeepSources, {SourceSlot(o)}, 0, "source"});
  return programs;
}

const std::vector<std::span<const double>>& NextToken::Logits(std::span<const Tokens> texts) {
  auto rows = size_t(model_.options.rows);
  logits_.assign(rows, {});
  values_.resize(rows);
  ReadAll(texts, 0, [&](size_t row, const std::vector<Tensor>& outputs) {
    SetToRow(values_[row], outputs[0], row, rows);
    logits_[row] = values_[row];
  });
  return logits_;
}

std::optional<std::span<const int32_t>> NextToken::Best(std::span<const Tokens> texts) {
  WEFT_CHECK(has_best(), "next token: expected programs that find the best token, got others; give best_of");
  best_.assign(size_t(model_.options.rows), -1);
  bool finite = true;
  ReadAll(texts, 1, [&](size_t row, const std::vector<Tensor>& outputs) {
    best_[row] = int32_t(outputs[1].as<const int64_t>()[row]);
    finite &= std::isfinite(outputs[2].Item());
  });
  if (!finite) return std::nullopt;
  return best_;
}

// Runs programs until all texts have been read.
void NextToken::ReadAll(std::span<const Tokens> texts, size_t first_output, Take take) {
  auto context = size_t(model_.options.tokens), rows = size_t(model_.options.rows);
  CheckTexts(texts);
  std::vector<Tokens> seen(rows);
  for (size_t row = 0; row < texts.size(); row++) seen[row] = texts[row].last(std::min(texts[row].size(), context));
  done_.assign(rows, false);
  model_.forward.cached().resize(rows);
  if (model_.state.Has(kSource)) ReadSources(seen);
  while (Read(seen, first_output, take)) {
  }
}

void NextToken::CheckTexts(std::span<const Tokens> texts) const {
  const StepOptions& o = model_.options;
  WEFT_CHECK(int64_t(texts.size()) <= o.rows,
             fmt::format("next token: expected at most {} texts, got {}", o.rows, texts.size()));
  WEFT_CHECK(std::any_of(texts.begin(), texts.end(), [](Tokens text) { return !text.empty(); }),
             "next token: expected a text with a token, got none");
  for (Tokens text : texts)
    WEFT_CHECK(o.source_tokens == 0 || text.empty() ||
                   (int64_t(text.size()) > o.source_tokens && int64_t(text.size()) <= o.tokens),
               fmt::format("next token: expected a source of {} tokens and a target of at most {}, got {} tokens",
                           o.source_tokens, o.tokens - o.source_tokens, text.size()));
}

// Reads the sources of all rows, unless those of the texts are in the caches. A row without a text keeps its source, so
// that its keys and values stay the same.
void NextToken::ReadSources(std::span<const Tokens> texts) {
  std::vector<std::vector<int32_t>>&cached = model_.forward.cached(), &sources = model_.forward.sources();
  auto length = size_t(model_.options.source_tokens) + 1;  // with the token that begins the target
  sources.resize(texts.size());
  bool any = false;
  for (size_t row = 0; row < texts.size(); row++) {
    if (texts[row].empty() || std::ranges::equal(sources[row], texts[row].first(length))) continue;
    any = true;
    sources[row].assign(texts[row].begin(), texts[row].begin() + std::ptrdiff_t(length));
    cached[row].assign(sources[row].begin(), sources[row].end() - 1);
  }
  if (!any) return;
  DimView rows = model_.state.View(kSource).dim(0);
  std::vector<int32_t> tokens(size_t(rows.capacity) * length);
  for (int64_t i = 0; i < rows.extent; i++)
    std::ranges::copy(sources[size_t(rows.offset + i)], tokens.begin() + i * int64_t(length));
  WriteSlot(kSource, tokens.data());
  model_.state.device().Synchronize();  // before the host's memory changes
  model_.forward.Run(model_.forward.programs().size() - 1);
  sources_read_++;
}

// Returns the smallest program that is large enough, unless most of it would be padding. Then returns one that the
// tokens fill, and more runs follow.
size_t NextToken::ChooseProgram(int64_t tokens) const {
  std::span<const ForwardProgram> programs = model_.forward.programs();
  if (model_.state.Has(kSource)) programs = programs.first(programs.size() - 1);
  size_t at = 0;
  while (at + 1 < programs.size() && programs[at].tokens < tokens) at++;
  return at > 0 && programs[at].tokens > 2 * tokens ? at - 1 : at;
}

// Returns how many tokens of a row must be read. The last one is always read, because its logits are not kept.
int64_t NextToken::Needed(size_t row, Tokens text) const {
  if (text.empty() || done_[row]) return 0;
  return int64_t(text.size()) - Kept(row, text);
}

int64_t NextToken::Kept(size_t row, Tokens text) const {
  return std::min(SameBeginning(model_.forward.cached()[row], text), int64_t(text.size()) - 1);
}

// Returns what a run of `size` tokens reads of a row. A row that needs no token gets padding after its cached tokens. A
// run must end within the cache, so near its end it reads some tokens again.
NextToken::Part NextToken::PartOf(size_t row, Tokens text, int64_t size) const {
  int64_t most = model_.options.tokens - size;
  int64_t cached = std::max(int64_t(model_.forward.cached()[row].size()), model_.options.source_tokens);
  if (Needed(row, text) == 0) return {std::min(cached, most), 0};
  int64_t start = std::min(Kept(row, text), most);
  return {start, std::min(size, int64_t(text.size()) - start)};
}

// Runs one program, and calls `take` for the texts that it has read to their end. Returns false, and runs nothing, if
// no text needs it.
bool NextToken::Read(std::span<const Tokens> texts, size_t first_output, Take take) {
  int64_t needed = 0;
  for (size_t row = 0; row < texts.size(); row++) needed = std::max(needed, Needed(row, texts[row]));
  if (needed == 0) return false;
  size_t program = ChooseProgram(needed);
  int64_t size = model_.forward.programs()[program].tokens;
  std::vector<Part> parts;
  for (size_t row = 0; row < texts.size(); row++) parts.push_back(PartOf(row, texts[row], size));
  Fill(size, texts, parts);
  const std::vector<Tensor>& outputs = model_.forward.Run(program, first_output);
  tokens_read_ += size * int64_t(texts.size());
  for (size_t row = 0; row < texts.size(); row++) {
    auto [start, count] = parts[row];
    std::vector<int32_t>& cached = model_.forward.cached()[row];
    cached.resize(std::min(cached.size(), size_t(start)));
    Tokens read = texts[row].subspan(count ? size_t(start) : 0, size_t(count));
    cached.insert(cached.end(), read.begin(), read.end());
    if (count && start + count == int64_t(texts[row].size())) {
      done_[row] = true;
      take(row, outputs);
    }
  }
  return true;
}

// Writes this rank's rows of the slots. The device may copy them from `staging_` after this returns. The next call
// finds that done, because Forward::Run waits for the device.
void NextToken::Fill(int64_t size, std::span<const Tokens> texts, std::span<const Part> parts) {
  State& state = model_.state;
  DimView rows = state.View(TokensSlot(size)).dim(0);
  auto n = size_t(rows.capacity);
  size_t bytes = n * (2 * sizeof(int64_t) + size_t(size) * sizeof(int32_t));
  if (!staging_ || staging_->bytes() < bytes) staging_ = state.device().TryAllocateStaging(bytes);
  if (!staging_) staging_ = CpuRuntime().Allocate(bytes);
  std::memset(staging_->data(), 0, bytes);
  auto* last = static_cast<int64_t*>(staging_->data());  // [B]
  int64_t* past = last + n;                              // [B]
  auto* tokens = reinterpret_cast<int32_t*>(past + n);   // [B, size]
  for (int64_t i = 0; i < rows.extent; i++) {
    auto row = size_t(rows.offset + i);
    auto [start, count] = parts[row];
    Tokens read = texts[row].subspan(count ? size_t(start) : 0, size_t(count));
    std::copy(read.begin(), read.end(), tokens + i * size);
    last[i] = std::max<int64_t>(count - 1, 0);
    past[i] = start - model_.options.source_tokens;
  }
  WriteSlot(TokensSlot(size), tokens);
  if (size > 1) WriteSlot(LastSlot(size), last);  // a program of one token has no use for it
  if (state.Has(kPast)) WriteSlot(kPast, past);
}

void NextToken::WriteSlot(const std::string& slot, const void* values) {
  const Tensor& to = model_.state.At(slot).local;
  model_.state.device().Copy(to.data(), values, to.bytes());
}

}  // namespace weft
