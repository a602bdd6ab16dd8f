// weft bench gemm: times matrix products, [m, k] x [k, n], as compiled programs run them.
#include <array>

#include "fmt/format.h"
#include "launcher/bench/bench_job.h"
#include "launcher/bench/compiled_case.h"
#include "launcher/bench/number_list.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

void RunCase(const BenchJob& job, DType dtype, int64_t m, int64_t n, int64_t k) {
  Runtime runtime = job.runtime();
  NamedTensors leaves{{"a", RandomTensor(runtime, dtype, {m, k}, "a")},
                      {"b", RandomTensor(runtime, dtype, {k, n}, "b")}};
  LocalProgram program = TraceCase(runtime, [&]() -> std::vector<NamedValue> {
    return {{"c", Einsum("mk,kn->mn", Leaf("a", dtype, {m, k}), Leaf("b", dtype, {k, n}))}};
  });
  std::unique_ptr<Executable> product = CompileCase(runtime, program, leaves);
  BenchLine line{.kind = "gemm", .name = fmt::format("{} x {} x {}", m, n, k), .dtype = Name(dtype)};
  line.sizes = {{"m", m}, {"n", n}, {"k", k}};
  line.times = job.Time([&](int64_t calls) {
    for (int64_t i = 0; i < calls; i++) product->Run();
  });
  line.rate = ProductFlops(program) / line.times.Median() / 1e9;
  line.unit = "TFLOP/s";
  job.Print(line);
}

}  // namespace

absl::Status RunGemmBench(const BenchJob& job) {
  const BenchWords& words = job.words;
  const std::string m = !words.m.empty() ? words.m : job.on_gpu() ? "2048,4096,8192" : "256,512,1024";
  const std::array<KeyText, 3> texts{
      {{"m", m}, {"n", words.n.empty() ? m : words.n}, {"k", words.k.empty() ? m : words.k}}};
  absl::StatusOr<std::vector<std::vector<int64_t>>> sizes = ParseAligned(texts);
  if (!sizes.ok()) return sizes.status();
  absl::StatusOr<std::vector<DType>> dtypes = BenchDTypes(words, job.on_gpu() ? "bf16" : "f32", /*floating=*/true);
  if (!dtypes.ok()) return dtypes.status();
  job.PrintHead();
  for (DType dtype : *dtypes)
    for (size_t i = 0; i < (*sizes)[0].size(); i++) RunCase(job, dtype, (*sizes)[0][i], (*sizes)[1][i], (*sizes)[2][i]);
  return absl::OkStatus();
}

}  // namespace weft
