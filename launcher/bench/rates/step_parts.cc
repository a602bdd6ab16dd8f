#include "launcher/bench/rates/step_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "fmt/format.h"
#include "weft/core/base/memory.h"
#include "weft/core/host/notice.h"

namespace weft {
namespace {

// All turns together take about so many times as long as a case of another kind: 12 s by default.
constexpr double kCases = 60;
constexpr double kSettleSeconds = 15;  // of load on a GPU, by default
constexpr int64_t kMinTurns = 5, kMaxTurns = 200;
// A program that runs so long hides what the launch of a recording costs.
constexpr double kRunMs = 0.2;
constexpr int64_t kMaxCopies = 64;
constexpr double kShareOfFree = 0.9;  // of a GPU's free memory; the rest is for integers, recordings and copies

}  // namespace

void AddParts(const Plan& plan, const Runtime& runtime, int64_t times, StepParts& parts, const std::string& memory) {
  PretendedAddresses addresses(plan);
  PlannedCalls calls(plan, runtime, [&](const Place& place) { return addresses.At(place); });
  for (const PlannedCalls::Batch& batch : calls.batches()) {
    BatchWork work = WorkOf(plan, calls, batch, runtime.mesh_shape, memory);
    auto [it, is_new] = parts.emplace(work.name, StepPart{});
    if (is_new) it->second = {&plan, batch.first, batch.count, runtime.mesh_shape, work, 0};
    it->second.times += times;
  }
}

double PartsBench::SettleSeconds() const {
  return job_.words.settle >= 0 ? job_.words.settle : job_.on_gpu() ? kSettleSeconds : 0;
}

// Kernels of another mesh run as those of its first rank. They need no groups.
Runtime PartsBench::RuntimeOf(const StepPart& part) const {
  Runtime runtime = job_.runtime();
  runtime.overlap = OverlapMode::kNever;
  if (part.mesh == runtime.mesh_shape) return runtime;
  runtime.mesh = nullptr;
  runtime.mesh_shape = part.mesh;
  runtime.coords = Coords(part.mesh.sizes.size(), 0);
  return runtime;
}

std::map<std::string, double> PartsBench::Run(bool settles) {
  std::map<std::string, double> ms;
  if (parts_.empty()) return ms;
  Compile();
  if (parts_.empty()) return ms;
  std::vector<std::function<void(int64_t)>> runs;
  for (size_t i = 0; i < parts_.size(); i++)
    runs.emplace_back([this, i](int64_t calls) {
      for (int64_t k = 0; k < calls * turns_[i]; k++) made_[i]->Run();
    });
  std::vector<BenchWork> works(runs.begin(), runs.end());
  if (settles && SettleSeconds() > 0) Measure(works, SettleSeconds());
  std::vector<CallTimes> times = Measure(works, kCases * job_.words.seconds);
  for (size_t i = 0; i < parts_.size(); i++) {
    CallTimes one = times[i].PartOf(turns_[i] * copies_[i]);
    ms[parts_[i].work.name] = one.Median();
    Print(parts_[i], std::move(one));
  }
  return ms;
}

void PartsBench::Compile() {
  copies_.assign(parts_.size(), 1);
  turns_.assign(parts_.size(), 1);
  MakePrograms([](size_t) { return 1; });
  if (job_.on_gpu()) LeaveOutTooLarge();
  Bind();
  std::vector<double> ms = OnceEach();
  if (job_.on_gpu()) {  // on the CPU a call costs the host little, and heat does not matter
    made_.clear();
    MakePrograms([&](size_t i) { return std::clamp(int64_t(std::ceil(kRunMs / ms[i])), int64_t(1), kMaxCopies); });
    Bind();
    for (size_t i = 0; i < parts_.size(); i++) {
      turns_[i] = std::max<int64_t>(1, (parts_[i].times + copies_[i] / 2) / copies_[i]);
      ms[i] *= double(copies_[i] * turns_[i]);
    }
  }
  turn_ms_ = std::max(1.0, std::accumulate(ms.begin(), ms.end(), 0.0));
}

void PartsBench::MakePrograms(absl::FunctionRef<int64_t(size_t)> copies) {
  programs_.clear();
  for (size_t i = 0; i < parts_.size(); i++) {
    const StepPart& part = parts_[i];
    copies_[i] = MayRepeat(*part.plan, part.first, part.count) ? copies(i) : 1;
    std::vector<BatchProgram::Run> runs{{part.first, part.count, copies_[i]}};
    programs_.push_back(std::make_unique<BatchProgram>(*part.plan, runs, RuntimeOf(part)));
  }
}

std::vector<const BatchProgram*> PartsBench::programs() const {
  std::vector<const BatchProgram*> all;
  for (const auto& program : programs_) all.push_back(program.get());
  return all;
}

// A mesh of all meshes may have an update of more state than a GPU holds.
void PartsBench::LeaveOutTooLarge() {
  auto bytes = double(job_.context.device(job_.device).MemoryNow().free) * kShareOfFree;
  job_.mesh.World().AllReduce(&bytes, &bytes, 1, DType::kF64, ReduceOp::kMin);
  std::vector<size_t> out = LeftOut(programs(), size_t(bytes));
  std::sort(out.rbegin(), out.rend());
  for (size_t i : out) {
    if (job_.context.rank() == 0)
      PrintNote("weft bench: {} needs {} and is not timed, as the GPU has {} for it", parts_[i].work.name,
                BytesText(Operands::BytesFor(std::array{std::as_const(programs_[i]).get()})), BytesText(size_t(bytes)));
    parts_.erase(parts_.begin() + std::ptrdiff_t(i));
    programs_.erase(programs_.begin() + std::ptrdiff_t(i));
  }
  copies_.resize(parts_.size());
  turns_.resize(parts_.size());
}

void PartsBench::Bind() {
  operands_.emplace(job_.runtime(), programs(), windows_);
  for (auto& program : programs_) made_.push_back(operands_->Bind(*program));
}

// Returns about how long each program takes.
std::vector<double> PartsBench::OnceEach() const {
  std::vector<double> ms;
  for (const std::unique_ptr<Executable>& run : made_) {
    auto work = [&](int64_t calls) {
      for (int64_t i = 0; i < calls; i++) run->Run();
    };
    ms.push_back(weft::Measure(job_.context.device(job_.device), job_.mesh.World(), {.repeats = 1}, work).Min());
  }
  return ms;
}

std::vector<CallTimes> PartsBench::Measure(std::span<const BenchWork> works, double seconds) const {
  MeasureOptions options{.repeats = std::clamp(int64_t(seconds * 1e3 / turn_ms_), kMinTurns, kMaxTurns)};
  return MeasureInTurns(job_.context.device(job_.device), job_.mesh.World(), options, works);
}

void PartsBench::Print(const StepPart& part, CallTimes times) const {
  const BatchWork& work = part.work;
  BenchLine line{.kind = "call", .name = work.name, .dtype = Name(work.dtype)};
  line.labels = {{"class", Name(work.kind)}, {"op", Name(work.op)}};
  line.sizes = {{"flops", int64_t(work.flops)},
                {"bytes", int64_t(work.bytes)},
                {"group_ranks", work.ranks},
                {"times", part.times}};
  bool computes = work.flops > 0;
  line.rate = computes ? work.flops / times.Median() / 1e9 : work.bytes / times.Median() / 1e6;
  line.unit = computes ? "TFLOP/s" : "GB/s";
  line.times = std::move(times);
  job_.Print(line);
}

}  // namespace weft
