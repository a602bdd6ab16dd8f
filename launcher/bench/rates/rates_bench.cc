// weft bench rates: times the parts of a config's step, each by itself, and ladders of sizes besides, so that weft plan
// can predict the step and those of other meshes.
#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "launcher/bench/bench_config.h"
#include "launcher/bench/number_list.h"
#include "launcher/bench/rates/overlap_case.h"
#include "launcher/bench/rates/step_parts.h"
#include "launcher/plan/candidates.h"
#include "launcher/plan/planned_step.h"
#include "weft/core/base/error.h"
#include "weft/core/ir/collective_row.h"
#include "weft/parallel/step/arena_windows.h"

namespace weft {
namespace {

// The planned steps whose parts are timed: first that of the config itself.
class PlannedSteps {
 public:
  explicit PlannedSteps(const BenchJob& job) : job_(job) { Add(job.config); }

  // Adds those of weft plan --search that can be planned.
  absl::Status AddAll() {
    absl::StatusOr<Config> config = LoadConfig(job_.words.config_path, job_.words.overrides);
    if (!config.ok()) return config.status();
    config->device = Device();
    for (const Candidate& candidate : Candidates(*config, job_.words.overrides, job_.context.world_size())) {
      BenchWords words = job_.words;
      words.overrides.insert(words.overrides.end(), candidate.keys.begin(), candidate.keys.end());
      std::vector<std::string> notes;
      absl::StatusOr<Config> other = BenchConfig(words, job_.context.world_size(), notes);
      if (other.ok()) AddIfPossible(*other);
    }
    return absl::OkStatus();
  }
  const StepParts& parts() const { return parts_; }
  // Those of the config's own step.
  std::vector<WindowUse> windows() const {
    const PlannedStep& own = *steps_.front();
    return WindowsOf(own.step().options(), &own.plans(), job_.device);
  }

 private:
  DeviceChoice Device() const { return job_.on_gpu() ? DeviceChoice::kCuda : DeviceChoice::kCpu; }

  void AddIfPossible(const Config& config) {
    try {
      Add(config);
    } catch (const Error&) {  // weft plan --search counts it as left out
    }
  }
  void Add(Config config) {
    config.device = Device();
    auto planned = std::make_unique<PlannedStep>(config);
    StepParts mine;
    const StepPlans& plans = planned->plans();
    if (plans.accumulate)
      AddParts(*plans.accumulate, planned->runtime(), planned->step().options().micro_steps - 1, mine,
               planned->memory());
    AddParts(plans.step, planned->runtime(), 1, mine, planned->memory());
    for (auto& [name, part] : mine)
      if (part.mesh == job_.mesh.shape() || !FindCollectiveRow(part.work.op)) parts_.emplace(name, part);
    steps_.push_back(std::move(planned));
  }

  const BenchJob& job_;
  std::vector<std::unique_ptr<PlannedStep>> steps_;  // parts refer to their plans
  StepParts parts_;
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
  const MeshShape& mesh = job.mesh.shape();
  std::set<int> done{1};  // numbers of ranks
  for (int i = 0; i <= mesh.num_axes(); i++) {
    bool world = i == mesh.num_axes();
    if (!done.insert(world ? mesh.num_ranks() : mesh.sizes[size_t(i)]).second) continue;
    BenchWords words{.kind = "collective", .op = "all_reduce,all_gather,reduce_scatter,all_to_all"};
    words.bytes = job.on_gpu() ? "4K..1M,64M" : "4K..1M,16M";  // each result is checked on the host, which takes long
    words.factor = 16;
    words.axis = world ? "world" : mesh.names[size_t(i)];
    if (absl::Status s = with(words, RunCollectiveBench); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunRatesBench(const BenchJob& job) {
  absl::StatusOr<std::vector<std::string>> meshes = ParseNames("meshes", job.words.meshes, {"config", "all"});
  if (!meshes.ok()) return meshes.status();
  PlannedSteps steps(job);
  if (meshes->back() == "all")
    if (absl::Status s = steps.AddAll(); !s.ok()) return s;
  std::vector<StepPart> kernels, collectives;
  for (const auto& [name, part] : steps.parts())
    (part.work.kind == WorkClass::kCollective ? collectives : kernels).push_back(part);
  job.PrintHead();
  std::vector<WindowUse> windows = steps.windows();
  std::map<std::string, double> ms = PartsBench(job, std::move(kernels)).Run();
  // Collectives are timed apart: in turns with kernels each would also wait for the slowest rank. The load on the GPU
  // has just ended.
  ms.merge(PartsBench(job, std::move(collectives), windows).Run(/*settles=*/false));
  if (std::optional<OverlapCase> overlap = OverlapCase::Of(steps.parts(), ms)) overlap->Run(job, windows);
  return RunLadders(job);
}

}  // namespace weft
