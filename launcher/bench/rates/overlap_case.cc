#include "launcher/bench/rates/overlap_case.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fmt/format.h"

namespace weft {
namespace {

constexpr int kCollectives = 4;  // in a run
// The products take so many times as long as the collectives, so that these are hidden.
constexpr double kLonger = 1.5;

// Returns the part of this class that moves the most bytes, of one plan or, with null, of any, among those with a time.
const StepPart* Largest(const StepParts& parts, const std::map<std::string, double>& ms, WorkClass kind,
                        const Plan* plan) {
  const StepPart* largest = nullptr;
  for (const auto& [name, part] : parts) {
    if (part.work.kind != kind || (plan && part.plan != plan) || !ms.contains(part.work.name)) continue;
    bool repeats = kind == WorkClass::kCollective ? !WritesInPlace(*part.plan, part.first, part.count)
                                                  : MayRepeat(*part.plan, part.first, part.count);
    if (repeats && (!largest || part.work.bytes > largest->work.bytes)) largest = &part;
  }
  return largest;
}

}  // namespace

std::optional<OverlapCase> OverlapCase::Of(const StepParts& parts, const std::map<std::string, double>& ms) {
  const StepPart* collective = Largest(parts, ms, WorkClass::kCollective, nullptr);
  if (!collective) return std::nullopt;
  const StepPart* product = Largest(parts, ms, WorkClass::kProduct, collective->plan);
  if (!product) return std::nullopt;
  return OverlapCase(*product, *collective, ms.at(product->work.name), ms.at(collective->work.name));
}

OverlapCase::OverlapCase(const StepPart& product, const StepPart& collective, double product_ms, double collective_ms)
    : product_(product),
      collective_(collective),
      collective_ms_(collective_ms),
      products_(std::max<int64_t>(1, std::llround(std::ceil(kLonger * collective_ms / product_ms)))) {}

BatchProgram OverlapCase::ProgramOf(const Runtime& runtime, bool collectives) const {
  std::vector<BatchProgram::Run> runs;
  for (int i = 0; i < kCollectives; i++) {
    if (collectives) runs.push_back({collective_.first, collective_.count});
    runs.push_back({product_.first, product_.count, products_});
  }
  return BatchProgram(*product_.plan, runs, runtime);
}

void OverlapCase::Run(const BenchJob& job, std::span<const WindowUse> windows) const {
  Runtime runtime = job.runtime();
  runtime.overlap = OverlapMode::kAlways;
  BatchProgram products = ProgramOf(runtime, false), both = ProgramOf(runtime, true);
  const std::array<const BatchProgram*, 2> programs{&products, &both};
  Operands operands(runtime, programs, windows);
  std::unique_ptr<Executable> run_products = operands.Bind(products), run_both = operands.Bind(both);
  auto times_of = [](Executable& executable) {
    return [&executable](int64_t calls) {
      for (int64_t i = 0; i < calls; i++) executable.Run();
    };
  };
  auto first = times_of(*run_products), second = times_of(*run_both);
  const std::array<BenchWork, 2> works{first, second};
  std::vector<CallTimes> times = job.TimeInTurns(works);
  Print(job, times[0], times[1]);
}

void OverlapCase::Print(const BenchJob& job, const CallTimes& without, const CallTimes& with) const {
  double lost = (with.Median() - without.Median()) / (kCollectives * collective_ms_);
  BenchLine line{.kind = "overlap", .dtype = Name(product_.work.dtype)};
  line.name = fmt::format("{} while {}", product_.work.name, collective_.work.name);
  line.labels = {{"product", product_.work.name}, {"collective", collective_.work.name}};
  line.sizes = {{"collectives", kCollectives}, {"products", kCollectives * products_}};
  line.more = {{"products_ms", without.Median()}, {"lost_share", std::clamp(lost, 0.0, 1.0)}};
  line.times = with;
  job.Print(line);
}

}  // namespace weft
