// weft bench rates: times the parts of a config's step, each by itself, and ladders of sizes besides, so that weft plan
// can predict the step and those of other meshes.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "fmt/format.h"
#include "launcher/bench/batch_case.h"
#include "launcher/bench/bench_job.h"
#include "launcher/plan/planned_step.h"

namespace weft {
namespace {

// A distinct batch of the step's plans.
struct Part {
  const Plan* plan;
  size_t first, count;
  MeshShape mesh;
  BatchWork work;
  int64_t times;  // in a step
};

// Adds the batches of a plan that runs `times` times in a step.
void AddParts(const Plan& plan, const Runtime& runtime, int64_t times, std::map<std::string, Part>& parts) {
  PretendedAddresses addresses(plan);
  PlannedCalls calls(plan, runtime, [&](const Place& place) { return addresses.At(place); });
  for (const PlannedCalls::Batch& batch : calls.batches()) {
    BatchWork work = WorkOf(plan, calls, batch, runtime.mesh_shape);
    auto [it, is_new] = parts.emplace(work.name, Part{});
    if (is_new) it->second = {&plan, batch.first, batch.count, runtime.mesh_shape, work, 0};
    it->second.times += times;
  }
}

// Times parts in turns, each as often as a step has it: so a GPU's clocks are those that the mixture of work leaves it.
class PartsBench {
 public:
  PartsBench(const BenchJob& job, std::vector<Part> parts) : job_(job), parts_(std::move(parts)) {}

  void Run() {
    if (parts_.empty()) return;
    Compile();
    std::vector<std::function<void(int64_t)>> runs;
    for (size_t i = 0; i < parts_.size(); i++)
      runs.emplace_back([this, i](int64_t calls) {
        for (int64_t k = 0; k < calls * turns_[i]; k++) made_[i]->Run();
      });
    std::vector<BenchWork> works(runs.begin(), runs.end());
    if (SettleSeconds() > 0) Measure(works, SettleSeconds());
    std::vector<CallTimes> times = Measure(works, kSeconds);
    for (size_t i = 0; i < parts_.size(); i++) Print(parts_[i], times[i].PartOf(turns_[i] * programs_[i]->copies()));
  }

 private:
  static constexpr double kSeconds = 12;  // of all repeats
  // A run of this length hides what the launch of a recording costs, and a recording need not be longer than this.
  static constexpr double kRunMs = 0.2;
  static constexpr int64_t kMaxCopies = 64;

  double SettleSeconds() const { return job_.words.settle >= 0 ? job_.words.settle : job_.on_gpu() ? 15 : 0; }

  Runtime RuntimeOf(const Part& part) const {
    Runtime runtime = job_.runtime();
    if (part.mesh == runtime.mesh_shape) return runtime;
    runtime.mesh = nullptr;
    runtime.mesh_shape = part.mesh;
    runtime.coords = Coords(part.mesh.sizes.size(), 0);
    return runtime;
  }
  std::unique_ptr<BatchProgram> ProgramOf(const Part& part, int64_t copies) const {
    return std::make_unique<BatchProgram>(*part.plan, part.first, part.count, RuntimeOf(part), int(copies));
  }

  void Compile() {
    Bind([](size_t) { return 1; });
    turns_.assign(parts_.size(), 1);
    std::vector<double> ms = OnceEach();
    if (!job_.on_gpu()) return SumUp(ms);  // a call costs the host little, and heat does not matter
    made_.clear();
    Bind([&](size_t i) { return std::clamp(int64_t(std::ceil(kRunMs / ms[i])), int64_t(1), kMaxCopies); });
    for (size_t i = 0; i < parts_.size(); i++) {
      int64_t copies = programs_[i]->copies();
      turns_[i] = std::max<int64_t>(1, (parts_[i].times + copies / 2) / copies);
      ms[i] *= double(copies * turns_[i]);
    }
    SumUp(ms);
  }
  // Returns about how long each takes.
  std::vector<double> OnceEach() const {
    std::vector<double> ms;
    for (const std::unique_ptr<Executable>& run : made_) {
      auto work = [&](int64_t calls) {
        for (int64_t i = 0; i < calls; i++) run->Run();
      };
      ms.push_back(weft::Measure(job_.context.device(job_.device), job_.mesh.World(), {.repeats = 1}, work).Min());
    }
    return ms;
  }
  void SumUp(const std::vector<double>& ms) { sum_ms_ = std::accumulate(ms.begin(), ms.end(), 0.0); }
  void Bind(absl::FunctionRef<int64_t(size_t)> copies) {
    programs_.clear();
    size_t operand_bytes = 0, arena_bytes = 0;
    for (size_t i = 0; i < parts_.size(); i++) {
      programs_.push_back(ProgramOf(parts_[i], copies(i)));
      operand_bytes = std::max(operand_bytes, programs_.back()->operand_bytes());
      arena_bytes = std::max(arena_bytes, programs_.back()->plan().arena_bytes);
    }
    operands_.emplace(job_.runtime(), operand_bytes, arena_bytes);
    for (auto& program : programs_) made_.push_back(operands_->Bind(*program));
  }

  std::vector<CallTimes> Measure(std::span<const BenchWork> works, double seconds) const {
    MeasureOptions options{.repeats = std::clamp<int64_t>(int64_t(seconds * 1e3 / std::max(sum_ms_, 1.0)), 5, 200)};
    return MeasureInTurns(job_.context.device(job_.device), job_.mesh.World(), options, works);
  }

  void Print(const Part& part, CallTimes times) const {
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

  const BenchJob& job_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<BatchProgram>> programs_;
  std::optional<Operands> operands_;
  std::vector<std::unique_ptr<Executable>> made_;
  std::vector<int64_t> turns_;  // runs of each program in a turn
  double sum_ms_ = 1;           // of a turn, about
};

// Runs other kinds with their own words, on the mesh of this job.
absl::Status RunLadders(const BenchJob& job) {
  auto with = [&](BenchWords words, absl::Status (*run)(const BenchJob&)) {
    words.json = job.words.json;
    words.seconds = std::min(job.words.seconds, 0.1);
    words.dtype = Name(job.config.precision.compute);
    BenchJob other{words, job.config, job.context, job.mesh, job.device};
    return run(other);
  };
  if (absl::Status s = with({.kind = "copy"}, RunCopyBench); !s.ok()) return s;
  if (absl::Status s = with({.kind = "gemm"}, RunGemmBench); !s.ok()) return s;
  std::set<int> sizes;
  std::vector<std::string> axes = job.mesh.shape().names;
  axes.emplace_back("world");
  for (const std::string& axis : axes) {
    int size = axis == "world" ? job.mesh.size() : job.mesh.shape().sizes[size_t(job.mesh.shape().Axis(axis))];
    if (size == 1 || !sizes.insert(size).second) continue;
    BenchWords words{.kind = "collective", .op = "all_reduce,all_gather,reduce_scatter,all_to_all"};
    words.bytes = job.on_gpu() ? "4K..256M" : "4K..16M";
    words.factor = 16;
    words.axis = axis;
    if (absl::Status s = with(words, RunCollectiveBench); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunRatesBench(const BenchJob& job) {
  Config config = job.config;
  config.device = job.on_gpu() ? DeviceChoice::kCuda : DeviceChoice::kCpu;
  PlannedStep planned(config);
  std::map<std::string, Part> parts;
  const StepPlans& plans = planned.plans();
  if (plans.accumulate) AddParts(*plans.accumulate, planned.runtime(), planned.step().options().micro_steps - 1, parts);
  AddParts(plans.step, planned.runtime(), 1, parts);
  std::vector<Part> kernels, collectives;
  for (auto& [name, part] : parts)
    (part.work.kind == WorkClass::kCollective ? collectives : kernels).push_back(std::move(part));
  job.PrintHead();
  PartsBench(job, std::move(kernels)).Run();
  PartsBench(job, std::move(collectives)).Run();
  return RunLadders(job);
}

}  // namespace weft
