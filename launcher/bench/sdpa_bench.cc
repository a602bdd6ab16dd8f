// weft bench sdpa: times attention, forward and backward, as compiled programs run it. FLOPs are counted as in the
// benchmarks of FlashAttention: two products forward, five backward, and half of that with a causal mask.
#include <array>
#include <cmath>

#include "fmt/format.h"
#include "launcher/bench/bench_job.h"
#include "launcher/bench/compiled_case.h"
#include "launcher/bench/number_list.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

struct Sizes {
  int64_t batch, heads, kv_heads, seq, head_dim;

  Shape q() const { return {batch, seq, heads, head_dim}; }
  Shape kv() const { return {batch, seq, kv_heads, head_dim}; }
  Shape lse() const { return {batch, seq, heads}; }
};

// One shape in one dtype. The backward pass reads the outputs of a forward pass on the same tensors.
class SdpaBench {
 public:
  SdpaBench(const BenchJob& job, const Sizes& sizes, DType dtype)
      : job_(job), runtime_(job.runtime()), sizes_(sizes), dtype_(dtype) {
    for (const char* name : {"q", "dout"}) tensors_[name] = RandomTensor(runtime_, dtype, sizes.q(), name);
    for (const char* name : {"k", "v"}) tensors_[name] = RandomTensor(runtime_, dtype, sizes.kv(), name);
  }

  void Run(const std::string& pass) {
    LocalProgram forward = TraceCase(runtime_, [&]() -> std::vector<NamedValue> {
      Outputs y = Emit(Op::kSdpa, Options(), {Of("q"), Of("k"), Of("v")}, Loc::current());
      return {{"out", y[0]}, {"lse", y[1]}};
    });
    std::unique_ptr<Executable> made = CompileCase(runtime_, forward, tensors_);
    if (pass == "forward") return Time(*made, forward, pass);
    made->Run();
    tensors_["out"] = made->Output("out");
    tensors_["lse"] = made->Output("lse");
    LocalProgram backward = TraceCase(runtime_, [&]() -> std::vector<NamedValue> {
      Var lse = Leaf("lse", AccumulateType(dtype_), sizes_.lse());
      Outputs d =
          Emit(Op::kSdpaGrad, Options(), {Of("q"), Of("k"), Of("v"), Of("out"), lse, Of("dout")}, Loc::current());
      return {{"dq", d[0]}, {"dk", d[1]}, {"dv", d[2]}};
    });
    Time(*CompileCase(runtime_, backward, tensors_), backward, pass);
  }

 private:
  Var Of(const std::string& name) const {
    return Leaf(name, dtype_, name == "k" || name == "v" ? sizes_.kv() : sizes_.q());
  }
  Attrs Options() const {
    return {{"causal", job_.words.causal}, {"causal_offset", 0}, {"scale", 1 / std::sqrt(double(sizes_.head_dim))}};
  }

  void Time(Executable& program, const LocalProgram& local, const std::string& pass) const {
    const Sizes& s = sizes_;
    bool causal = job_.words.causal;
    BenchLine line{.kind = "sdpa", .dtype = Name(dtype_), .unit = "TFLOP/s"};
    line.name = fmt::format("{}x{}x{}x{}{} {}", s.batch, s.heads, s.seq, s.head_dim, causal ? " causal" : "", pass);
    if (s.kv_heads != s.heads) line.name = fmt::format("{} of {} KV heads", line.name, s.kv_heads);
    line.labels = {{"pass", pass}, {"mask", causal ? "causal" : "none"}};
    line.sizes = {
        {"batch", s.batch}, {"heads", s.heads}, {"kv_heads", s.kv_heads}, {"seq", s.seq}, {"head_dim", s.head_dim}};
    line.times = job_.Time([&](int64_t calls) {
      for (int64_t i = 0; i < calls; i++) program.Run();
    });
    line.rate = ProductFlops(local) * (causal ? 0.5 : 1.0) / line.times.Median() / 1e9;
    job_.Print(line);
  }

  const BenchJob& job_;
  Runtime runtime_;
  Sizes sizes_;
  DType dtype_;
  NamedTensors tensors_;
};

absl::Status Check(const Sizes& s) {
  constexpr double kMaxElements = double(int64_t(1) << 40);
  if (s.heads % s.kv_heads)
    return absl::InvalidArgumentError(
        fmt::format("{}kv_heads: expected a divisor of the {} heads, got {}", kCommandLine, s.heads, s.kv_heads));
  double elements = double(s.batch) * double(s.heads) * double(s.seq) * double(s.head_dim);
  if (elements <= kMaxElements) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}seq: expected batch x heads x seq x head_dim <= {:.0f}, got {} x {} x {} x {}", kCommandLine,
                  kMaxElements, s.batch, s.heads, s.seq, s.head_dim));
}

// Returns the shapes that the arguments list. Without such arguments, returns three shapes that suit the device.
absl::StatusOr<std::vector<Sizes>> SizesOf(const BenchJob& job) {
  const BenchWords& w = job.words;
  bool any = !(w.batch + w.heads + w.kv_heads + w.seq + w.head_dim).empty();
  auto text = [&](const std::string& given, const char* alone, const char* on_gpu) -> std::string {
    if (!given.empty()) return given;
    return job.on_gpu() && !any ? on_gpu : alone;
  };
  const std::string heads = text(w.heads, "8", "12,16,32");
  const std::array<KeyText, 5> texts{{{"batch", text(w.batch, "1", "64,4,2")},
                                      {"heads", heads},
                                      {"kv_heads", w.kv_heads.empty() ? heads : w.kv_heads},
                                      {"seq", text(w.seq, "128,256,512", "1024,4096,8192")},
                                      {"head_dim", text(w.head_dim, "64", "64,128,128")}}};
  absl::StatusOr<std::vector<std::vector<int64_t>>> lists = ParseAligned(texts);
  if (!lists.ok()) return lists.status();
  std::vector<Sizes> shapes;
  for (size_t i = 0; i < lists->front().size(); i++) {
    auto at = [&](size_t list) { return (*lists)[list][i]; };
    shapes.push_back({.batch = at(0), .heads = at(1), .kv_heads = at(2), .seq = at(3), .head_dim = at(4)});
    if (absl::Status status = Check(shapes.back()); !status.ok()) return status;
  }
  return shapes;
}

}  // namespace

absl::Status RunSdpaBench(const BenchJob& job) {
  absl::StatusOr<std::vector<Sizes>> shapes = SizesOf(job);
  if (!shapes.ok()) return shapes.status();
  absl::StatusOr<std::vector<std::string>> passes = ParseNames("pass", job.words.pass, {"forward", "backward"});
  if (!passes.ok()) return passes.status();
  absl::StatusOr<std::vector<DType>> dtypes = BenchDTypes(job.words, job.on_gpu() ? "bf16" : "f32", /*floating=*/true);
  if (!dtypes.ok()) return dtypes.status();
  job.PrintHead();
  for (DType dtype : *dtypes)
    for (const Sizes& shape : *shapes) {
      SdpaBench bench(job, shape, dtype);
      for (const std::string& pass : *passes) bench.Run(pass);
    }
  return absl::OkStatus();
}

}  // namespace weft
