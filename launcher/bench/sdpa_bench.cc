// weft bench sdpa: times attention, forward and backward, as compiled programs run it. FLOPs are counted as in the
// benchmarks of FlashAttention: two products forward, five backward, and half of that with a causal mask. With a
// window, documents or padding, only pairs of a query and a key that it sees count.
#include <algorithm>
#include <array>
#include <cmath>

#include "fmt/format.h"
#include "launcher/bench/bench_job.h"
#include "launcher/bench/compiled_case.h"
#include "launcher/bench/number_list.h"
#include "weft/core/host/rounding.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

struct Sizes {
  int64_t batch, heads, kv_heads, seq, head_dim;

  Shape q() const { return {batch, seq, heads, head_dim}; }
  Shape kv() const { return {batch, seq, kv_heads, head_dim}; }
  Shape lse() const { return {batch, seq, heads}; }
};

// Which keys a query of a sequence sees.
struct Mask {
  bool causal;
  int64_t window, documents, seq, length;  // keys from `length` on are padding

  Mask(const BenchWords& w, int64_t tokens)
      : causal(w.causal),
        window(w.window),
        documents(w.documents),
        seq(tokens),
        length(tokens - int64_t(w.padding * double(tokens))) {}
  bool has_lengths() const { return documents == 1 && length < seq; }
  bool has_segments() const { return documents > 1; }
  int64_t Document(int64_t i) const { return i * documents / seq; }
  int64_t FirstOf(int64_t document) const { return CeilDiv(document * seq, documents); }
  // Returns the share of pairs that are seen. Only a causal mask counts half, as FlashAttention has it.
  double Share() const {
    if (!has_segments() && !has_lengths() && window == 0) return causal ? 0.5 : 1;
    int64_t seen = 0;
    for (int64_t i = 0; i < seq; i++) {
      int64_t begin = std::max(FirstOf(Document(i)), window > 0 ? i - window + 1 : 0);
      int64_t end = std::min({FirstOf(Document(i) + 1), causal ? i + 1 : seq, length});
      seen += std::max<int64_t>(end - begin, 0);
    }
    return double(seen) / double(seq * seq);
  }
  std::string Name() const {
    std::string name = causal ? " causal" : "";
    if (window > 0) name += fmt::format(" window {}", window);
    if (documents > 1) name += fmt::format(" {} documents", documents);
    return length < seq ? fmt::format("{} {} of padding", name, seq - length) : name;
  }
};

// One shape in one dtype. The backward pass reads the outputs of a forward pass on the same tensors.
class SdpaBench {
 public:
  SdpaBench(const BenchJob& job, const Sizes& sizes, DType dtype)
      : job_(job), runtime_(job.runtime()), sizes_(sizes), mask_(job.words, sizes.seq), dtype_(dtype) {
    for (const char* name : {"q", "dout"}) tensors_[name] = RandomTensor(runtime_, dtype, sizes.q(), name);
    for (const char* name : {"k", "v"}) tensors_[name] = RandomTensor(runtime_, dtype, sizes.kv(), name);
    if (mask_.has_lengths()) tensors_["lengths"] = Filled(mask_.length);
    if (!mask_.has_segments()) return;
    tensors_["query_segments"] = Segments(sizes.seq), tensors_["key_segments"] = Segments(mask_.length);
  }

  void Run(const std::string& pass) {
    LocalProgram forward = TraceCase(runtime_, [&]() -> std::vector<NamedValue> {
      Outputs y = CurrentBuilder().Emit(Op::kSdpa, Options(), WithMask({Of("q"), Of("k"), Of("v")}), Loc::current());
      return {{"out", y[0]}, {"lse", y[1]}};
    });
    std::unique_ptr<Executable> made = CompileCase(runtime_, forward, tensors_);
    if (pass == "forward") return Time(*made, forward, pass);
    made->Run();
    tensors_["out"] = made->Output("out");
    tensors_["lse"] = made->Output("lse");
    LocalProgram backward = TraceCase(runtime_, [&]() -> std::vector<NamedValue> {
      Var lse = Leaf("lse", AccumulateType(dtype_), sizes_.lse());
      std::vector<Var> operands{Of("q"), Of("k"), Of("v"), Of("out"), lse, Of("dout")};
      Outputs d = CurrentBuilder().Emit(Op::kSdpaGrad, Options(), WithMask(operands), Loc::current());
      return {{"dq", d[0]}, {"dk", d[1]}, {"dv", d[2]}};
    });
    Time(*CompileCase(runtime_, backward, tensors_), backward, pass);
  }

 private:
  Var Of(const std::string& name) const {
    return Leaf(name, dtype_, name == "k" || name == "v" ? sizes_.kv() : sizes_.q());
  }
  Attrs Options() const {
    Attrs attrs{{"causal", mask_.causal}, {"causal_offset", 0}, {"scale", 1 / std::sqrt(double(sizes_.head_dim))}};
    if (mask_.window > 0) attrs.Set({"left", mask_.window - 1});
    if (mask_.has_lengths()) attrs.Set({"lengths", 1});
    if (mask_.has_segments()) attrs.Set({"segments", 1});
    return attrs;
  }
  std::vector<Var> WithMask(std::vector<Var> operands) const {
    if (mask_.has_lengths()) operands.push_back(Leaf("lengths", DType::kI64, {sizes_.batch}));
    if (mask_.has_segments())
      for (const char* name : {"query_segments", "key_segments"})
        operands.push_back(Leaf(name, DType::kI64, {sizes_.batch, sizes_.seq}));
    return operands;
  }
  Tensor Filled(int64_t value) const {
    Tensor filled = Tensor::Empty(DType::kI64, {sizes_.batch}, CpuRuntime());
    std::fill_n(filled.as<int64_t>(), sizes_.batch, value);
    return filled.To(runtime_.memory());
  }
  // Returns the document of each token, and -1 for tokens from `length` on: [batch, seq].
  Tensor Segments(int64_t length) const {
    Tensor segments = Tensor::Empty(DType::kI64, {sizes_.batch, sizes_.seq}, CpuRuntime());
    for (int64_t i = 0; i < sizes_.batch * sizes_.seq; i++) {
      int64_t token = i % sizes_.seq;
      segments.as<int64_t>()[i] = token < length ? mask_.Document(token) : -1;
    }
    return segments.To(runtime_.memory());
  }

  void Time(Executable& program, const LocalProgram& local, const std::string& pass) const {
    const Sizes& s = sizes_;
    BenchLine line{.kind = "sdpa", .dtype = Name(dtype_), .unit = "TFLOP/s"};
    line.name = fmt::format("{}x{}x{}x{}{} {}", s.batch, s.heads, s.seq, s.head_dim, mask_.Name(), pass);
    if (s.kv_heads != s.heads) line.name = fmt::format("{} of {} KV heads", line.name, s.kv_heads);
    line.labels = {{"pass", pass}, {"mask", mask_.causal ? "causal" : "none"}};
    line.sizes = {{"batch", s.batch},
                  {"heads", s.heads},
                  {"kv_heads", s.kv_heads},
                  {"seq", s.seq},
                  {"head_dim", s.head_dim},
                  {"window", mask_.window},
                  {"documents", mask_.documents},
                  {"padding", s.seq - mask_.length}};
    line.times = job_.Time([&](int64_t calls) {
      for (int64_t i = 0; i < calls; i++) program.Run();
    });
    line.rate = ProductFlops(local) * mask_.Share() / line.times.Median() / 1e9;
    job_.Print(line);
  }

  const BenchJob& job_;
  Runtime runtime_;
  Sizes sizes_;
  Mask mask_;
  DType dtype_;
  NamedTensors tensors_;
};

absl::Status Check(const BenchWords& w, const Sizes& s) {
  auto invalid = [](const std::string& message) { return absl::InvalidArgumentError(kCommandLine + message); };
  if (w.window < 0 || (w.window > 0 && !w.causal))
    return invalid(fmt::format("window: expected 0, or more with causal=true, got {}", w.window));
  if (w.documents < 1 || w.documents > s.seq)
    return invalid(fmt::format("documents: expected 1 to the {} tokens, got {}", s.seq, w.documents));
  if (!(w.padding >= 0 && w.padding < 1)) return invalid(fmt::format("padding: expected [0, 1), got {}", w.padding));
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
    if (absl::Status status = Check(job.words, shapes.back()); !status.ok()) return status;
  }
  return shapes;
}

}  // namespace

absl::Status RunSdpaBench(const BenchJob& job) {
  absl::StatusOr<std::vector<Sizes>> shapes = SizesOf(job);
  if (!shapes.ok()) return shapes.status();
  const std::string both = job.words.pass.empty() ? "forward,backward" : job.words.pass;
  absl::StatusOr<std::vector<std::string>> passes = ParseNames("pass", both, {"forward", "backward"});
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
