// weft bench copy: times y = -x over sizes. Ops that are bound by memory take about as long per byte, and small ones
// take what any op takes.
#include <array>

#include "fmt/format.h"
#include "launcher/bench/bench_job.h"
#include "launcher/bench/compiled_case.h"
#include "launcher/bench/number_list.h"
#include "launcher/bench/rates/batch_program.h"
#include "weft/core/base/memory.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

void RunCase(const BenchJob& job, DType dtype, int64_t bytes) {
  Runtime runtime = job.runtime();
  int64_t elements = std::max<int64_t>(1, bytes / 2 / int64_t(SizeOf(dtype)));
  bytes = 2 * elements * int64_t(SizeOf(dtype));  // a copy reads and writes whole elements
  LocalProgram program = TraceCase(runtime, [&]() -> std::vector<NamedValue> {
    return {{"y", -Leaf("x", dtype, {elements})}};
  });
  constexpr int kCopies = 16;  // in one run, so that the launch of a recording costs little in comparison
  Plan plan = MakePlan(program, runtime);
  BatchProgram copies(plan, {{0, 1, kCopies}}, runtime);
  const std::array<const BatchProgram*, 1> programs{&copies};
  Operands operands(runtime, programs);
  std::unique_ptr<Executable> run = operands.Bind(copies);
  BenchLine line{.kind = "copy", .name = BytesText(size_t(bytes)), .dtype = Name(dtype), .unit = "GB/s"};
  line.sizes = {{"bytes", bytes}};
  line.times = job.Time([&](int64_t calls) {
                    for (int64_t i = 0; i < calls; i++) run->Run();
                  })
                   .PartOf(kCopies);
  line.rate = double(line.sizes[0].second) / line.times.Median() / 1e6;
  job.Print(line);
}

}  // namespace

absl::Status RunCopyBench(const BenchJob& job) {
  const BenchWords& words = job.words;
  const std::string text = !words.copy_bytes.empty() ? words.copy_bytes : job.on_gpu() ? "4K..1G" : "4K..64M";
  absl::StatusOr<std::vector<int64_t>> sizes = ParseBytes("bytes", text, words.factor);
  if (!sizes.ok()) return sizes.status();
  absl::StatusOr<std::vector<DType>> dtypes = BenchDTypes(words, job.on_gpu() ? "bf16" : "f32", /*floating=*/true);
  if (!dtypes.ok()) return dtypes.status();
  job.PrintHead();
  for (DType dtype : *dtypes)
    for (int64_t bytes : *sizes) RunCase(job, dtype, bytes);
  return absl::OkStatus();
}

}  // namespace weft
