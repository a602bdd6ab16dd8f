// weft bench encoder: times nn::TransformerEncoder on a batch with padding, with a padding mask (plain) and on packed
// rows (packed), in turns, so that the rest of the host's work meets both alike. Sequences have from half to one and a
// half times the mean length. The outputs of both are compared before they are timed.
#include <algorithm>
#include <array>
#include <cmath>

#include "fmt/format.h"
#include "launcher/bench/bench_job.h"
#include "launcher/bench/compiled_case.h"
#include "launcher/bench/number_list.h"
#include "weft/core/ops/ops.h"
#include "weft/parallel/dtensor/eager_scope.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"
#include "weft/parallel/program/function.h"
#include "weft/parallel/step/init.h"

namespace weft {
namespace {

struct Sizes {
  int64_t batch, seq, layers, heads, dim, ffn;
};

// Returns lengths with about this share of padding in all. Long and short sequences alternate.
std::vector<int64_t> LengthsOf(int64_t batch, int64_t seq, double padding) {
  double mean = (1 - padding) * double(seq), spread = std::min(0.5 * mean, double(seq) - mean);
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < batch; b++) {
    int64_t place = b % 2 ? batch - 1 - b / 2 : b / 2;
    double length = mean + spread * ((2 * double(place) + 1) / double(batch) - 1);
    lengths.push_back(std::clamp<int64_t>(std::llround(length), 1, seq));
  }
  return lengths;
}

// The same encoder on the same batch by both paths.
class EncoderBench {
 public:
  enum Path : uint8_t { kPlain, kPacked };

  EncoderBench(const BenchJob& job, const Sizes& sizes, DType dtype)
      : job_(job),
        sizes_(sizes),
        dtype_(dtype),
        runtime_(job.runtime()),
        batch_(BatchPlacement(job.mesh.shape())),
        device_(runtime_.memory().device()),
        lengths_(LengthsOf(sizes.batch, sizes.seq, job.words.share_of_padding)),
        encoder_(nullptr, "encoder",
                 {.d_model = sizes.dim,
                  .nhead = sizes.heads,
                  .dim_feedforward = sizes.ffn,
                  .dropout = 0,
                  .activation = nn::Activation::kExactGelu},
                 sizes.layers),
        state_(Init(encoder_, AdamW(1e-4), job.mesh, Options())),
        eager_(state_.session(), Loc::current()) {
    Shape tokens{sizes.batch, sizes.seq, sizes.dim};
    int64_t groups = RanksWith(job.mesh.shape(), &MeshAxis::shards_batch);
    Tensor places = nn::PackedPlaces(lengths_, sizes.seq, {.groups = groups});
    slots_ = places.num_elements();
    for (const Tensor& x : {Random(tokens, "x"), Random(tokens, "targets"), Padding(), places}) {
      ValueInfo info;
      info.dtype = x.dtype(), info.shape = x.shape(), info.sharding = batch_;
      infos_.push_back(info);
      arguments_.push_back(DistributeTensor(x, job.mesh, batch_).Storage());
    }
  }

  absl::Status Run(const std::string& pass) {
    std::unique_ptr<Function> plain = Make(kPlain, pass), packed = Make(kPacked, pass);
    if (pass == "forward")
      if (absl::Status s = Compare(*plain, *packed); !s.ok()) return s;
    auto run = [&](Function& function) {
      return [&](int64_t calls) {
        for (int64_t i = 0; i < calls; i++) function.Run(arguments_);
      };
    };
    auto run_plain = run(*plain), run_packed = run(*packed);
    const std::array<BenchWork, 2> works{run_plain, run_packed};
    std::vector<CallTimes> times = job_.TimeInTurns(works);
    Print(kPlain, pass, times[kPlain], nullptr);
    Print(kPacked, pass, times[kPacked], &times[kPlain]);
    return absl::OkStatus();
  }

 private:
  InitOptions Options() const {
    DType wide = dtype_ == DType::kF64 ? DType::kF64 : DType::kF32;
    return {.plan = TransformerPlan({.heads = sizes_.heads, .kv_heads = sizes_.heads}, job_.mesh.shape()),
            .precision = {dtype_, wide, wide},
            .seed = 1};
  }
  Tensor Random(const Shape& shape, const std::string& name) const {
    return RandomTensor(runtime_, dtype_, shape, name).To(CpuRuntime());
  }
  Tensor Padding() const {
    Tensor padding = Tensor::Empty(DType::kBool, {sizes_.batch, sizes_.seq}, CpuRuntime());
    for (int64_t i = 0; i < sizes_.batch * sizes_.seq; i++)
      padding.as<uint8_t>()[i] = i % sizes_.seq >= lengths_[size_t(i / sizes_.seq)];
    return padding;
  }
  int64_t RealTokens() const {
    int64_t real = 0;
    for (int64_t length : lengths_) real += length;
    return real;
  }

  // Returns the outputs of real tokens, and 0 or other values for padding.
  Var Outputs(Path path, const Var& x, const Var& padding, const Var& places) {
    if (path == kPacked) return encoder_(x, nn::Packing(places, sizes_.batch, sizes_.seq));  // [B, T, C]
    return encoder_(x, {.key_padding_mask = IgnoreMask(padding)});                           // [B, T, C]
  }
  // The mean squared distance of real tokens' outputs from their targets, and the update.
  Var Step(Path path, std::span<const Var> in) {
    Var real = Cast(Not(in[2]), DType::kF32);                               // [B, T]
    Var y = Cast(Outputs(path, in[0], in[2], in[3]) - in[1], DType::kF32);  // [B, T, C]
    Loss loss{SumAll(Square(y) * Broadcast(real, 2, sizes_.dim)), SumAll(real)};
    return state_.optimizer().Step(loss, Grad(loss, encoder_.Parameters())).first;
  }
  std::unique_ptr<Function> Make(Path path, const std::string& pass) {
    auto body = [this, path, pass](std::span<const Var> in) -> std::vector<NamedValue> {
      if (pass == "step") return {{"loss", Step(path, in)}};
      return {{"y", Outputs(path, in[0], in[2], in[3])}};
    };
    ProgramOptions options{.name = "encoder",
                           .random = {.random_phase = pass == "step" ? RandomPhase::kTrain : RandomPhase::kEval},
                           .model = state_.model(),
                           .partition = {.mesh = job_.mesh.shape(), .kernels = &runtime_.kernels(), .natural = true}};
    for (const auto& [name, entry] : state_.entries()) options.partition.wanted[name] = entry.sharding;
    programs_.push_back(std::make_unique<Program>(body, options, infos_));
    return MakeFunction(*programs_.back(), state_, runtime_);
  }

  // Checks that both paths give real tokens the same values, and that padding gets 0 by the packed one.
  absl::Status Compare(Function& plain, Function& packed) {
    auto output = [&](Function& function) {
      function.Run(arguments_);
      const Function::Result& y = function.results()[0];
      return FromStorage(state_.session(), y.storage, y.shape, y.sharding, {}, {"bench", Loc::current()})
          .FullTensor()
          .To(CpuRuntime())
          .ToDoubles();
    };
    std::vector<double> a = output(plain), b = output(packed);
    double scale = 0, difference = 0;
    for (int64_t i = 0; i < int64_t(a.size()); i++) {
      int64_t token = i / sizes_.dim;
      double want = token % sizes_.seq < lengths_[size_t(token / sizes_.seq)] ? a[size_t(i)] : 0;
      scale = std::max(scale, std::abs(want));
      difference = std::max(difference, std::abs(b[size_t(i)] - want));
    }
    difference_ = difference / scale;
    // Norms make values near 1, which a few roundings per layer have changed.
    double bound = dtype_ == DType::kF64 ? 1e-11 : dtype_ == DType::kF32 ? 1e-3 : 0.1;
    if (difference_ <= bound) return absl::OkStatus();
    return absl::AbortedError(
        fmt::format("weft bench: expected outputs of both paths that differ by at most {} of the largest, got {}",
                    bound, difference_));
  }

  void Print(Path path, const std::string& pass, CallTimes times, const CallTimes* plain) const {
    const Sizes& s = sizes_;
    const char* name = path == kPlain ? "plain" : "packed";
    BenchLine line{.kind = "encoder", .dtype = Name(dtype_), .unit = "tokens/s"};
    int64_t real = RealTokens();
    line.name =
        fmt::format("{}x{} of {} real, {} layers of {} {} {}", s.batch, s.seq, real, s.layers, s.dim, name, pass);
    line.labels = {{"path", name}, {"pass", pass}};
    line.sizes = {{"batch", s.batch}, {"seq", s.seq}, {"layers", s.layers}, {"heads", s.heads},
                  {"dim", s.dim},     {"ffn", s.ffn}, {"real", real},       {"slots", slots_}};
    line.rate = double(real) * 1e3 / times.Median() / job_.context.world_size();
    if (plain)
      line.more = {{"speedup", plain->Median() / times.Median()}, {"speedup_of_min", plain->Min() / times.Min()}};
    if (plain && pass == "forward") line.more.emplace_back("difference", difference_);
    line.times = std::move(times);
    job_.Print(line);
  }

  const BenchJob& job_;
  Sizes sizes_;
  DType dtype_;
  Runtime runtime_;
  Sharding batch_;
  DefaultDeviceScope device_;
  std::vector<int64_t> lengths_;
  nn::TransformerEncoder encoder_;
  State state_;
  EagerScope eager_;
  int64_t slots_ = 0;
  std::vector<ValueInfo> infos_;                    // x, targets, padding, places
  std::vector<Tensor> arguments_;                   // this rank's chunks of them
  std::vector<std::unique_ptr<Program>> programs_;  // functions refer to them
  double difference_ = 0;
};

absl::Status Check(const BenchWords& w, const Sizes& s, int64_t ranks) {
  auto invalid = [](const std::string& message) { return absl::InvalidArgumentError(kCommandLine + message); };
  if (!(w.share_of_padding >= 0 && w.share_of_padding < 1))
    return invalid(fmt::format("padding: expected [0, 1), got {}", w.share_of_padding));
  if (s.dim % s.heads) return invalid(fmt::format("heads: expected a divisor of dim {}, got {}", s.dim, s.heads));
  if (s.batch % ranks)
    return invalid(fmt::format("batch: expected a multiple of the {} ranks that share it, got {}", ranks, s.batch));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> SizesOf(const BenchJob& job) {
  const BenchWords& w = job.words;
  auto text = [&](const std::string& given, const char* otherwise, const char* on_gpu) -> std::string {
    return !given.empty() ? given : job.on_gpu() ? on_gpu : otherwise;
  };
  const std::array<KeyText, 6> texts{{{"batch", text(w.batch, "16", "64")},
                                      {"seq", text(w.seq, "128", "512")},
                                      {"layers", text(w.layers, "2", "12")},
                                      {"heads", text(w.heads, "8", "12")},
                                      {"dim", text(w.dim, "512", "768")},
                                      {"ffn", text(w.ffn, "2048", "3072")}}};
  absl::StatusOr<std::vector<std::vector<int64_t>>> lists = ParseAligned(texts);
  if (!lists.ok()) return lists.status();
  std::vector<Sizes> all;
  for (size_t i = 0; i < lists->front().size(); i++) {
    auto at = [&](size_t list) { return (*lists)[list][i]; };
    all.push_back({.batch = at(0), .seq = at(1), .layers = at(2), .heads = at(3), .dim = at(4), .ffn = at(5)});
    int64_t ranks = RanksWith(job.mesh.shape(), &MeshAxis::shards_batch);
    if (absl::Status status = Check(w, all.back(), ranks); !status.ok()) return status;
  }
  return all;
}

}  // namespace

absl::Status RunEncoderBench(const BenchJob& job) {
  absl::StatusOr<std::vector<Sizes>> sizes = SizesOf(job);
  if (!sizes.ok()) return sizes.status();
  const std::string passes = job.words.pass.empty() ? "forward,step" : job.words.pass;
  absl::StatusOr<std::vector<std::string>> names = ParseNames("pass", passes, {"forward", "step"});
  if (!names.ok()) return names.status();
  absl::StatusOr<std::vector<DType>> dtypes = BenchDTypes(job.words, job.on_gpu() ? "bf16" : "f32", /*floating=*/true);
  if (!dtypes.ok()) return dtypes.status();
  if (std::find(dtypes->begin(), dtypes->end(), DType::kF16) != dtypes->end())
    return absl::InvalidArgumentError(fmt::format("{}dtype: expected f64, f32 or bf16, got f16", kCommandLine));
  job.PrintHead();
  for (DType dtype : *dtypes)
    for (const Sizes& one : *sizes) {
      EncoderBench bench(job, one, dtype);
      for (const std::string& pass : *names)
        if (absl::Status s = bench.Run(pass); !s.ok()) return s;
    }
  return absl::OkStatus();
}

}  // namespace weft
