// weft bench step: times the training step of a config, by executor. Every step trains on the same random tokens.
// Nothing is read, saved, logged or evaluated.
#include "fmt/format.h"
#include "launcher/bench/bench_job.h"
#include "weft/dist/group/consensus.h"
#include "weft/dist/group/nccl/nccl_memory.h"
#include "weft/parallel/step/memory_need.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/model_of.h"
#include "weft/train/config/schedule.h"
#include "weft/train/data/slots.h"
#include "weft/train/log/mfu.h"
#include "weft/train/preflight/memory_check.h"
#include "weft/train/preflight/regather.h"

namespace weft {
namespace {

// Issues steps as the training loop does: on a device it issues the next step before it waits for the latest one.
class StepIssuer {
 public:
  explicit StepIssuer(StepRunner& runner) : runner_(runner) {}
  void Issue(int64_t steps) {
    for (int64_t i = 0; i < steps; i++) {
      if (issued_ - waited_ == StepRunner::kInFlight) WaitOne();
      runner_.Issue([](int) {});  // the slots are already filled
      issued_++;
    }
  }
  StepMetrics Finish() {
    while (waited_ < issued_) WaitOne();
    return metrics_;
  }

 private:
  void WaitOne() {
    metrics_ = runner_.Wait();
    waited_++;
  }

  StepRunner& runner_;
  int64_t issued_ = 0, waited_ = 0;
  StepMetrics metrics_;
};

// Returns the line of a step that took `times`.
BenchLine LineOf(const BenchJob& job, const TrainingStep& step, const std::string& executor, CallTimes times) {
  const Config& config = job.config;
  BenchLine line{.kind = "step", .dtype = Name(config.precision.compute), .unit = "tokens/s"};
  line.name = fmt::format("{} {}", job.words.config_path, executor);
  line.labels = {{"config", job.words.config_path}, {"executor", executor}, {"mesh", ToString(job.mesh.shape())}};
  int64_t parameters = 0;
  for (const Parameter* p : step.model().Parameters()) parameters += NumElements(p->shape());
  int64_t tokens = config.train.global_batch * config.model.context;
  line.sizes = {{"parameters", parameters},
                {"global_batch", config.train.global_batch},
                {"micro_batch", config.train.micro_batch},
                {"context", config.model.context}};
  double tokens_per_s = double(tokens) * 1e3 / times.Median();
  line.rate = tokens_per_s / job.context.world_size();
  line.more = {{"tokens_per_s", tokens_per_s}};
  Mfu mfu(step.model(), config.model.context, config.precision.compute, job.context.device(job.device).name(),
          job.context.world_size());
  if (std::optional<double> share = mfu.At(tokens_per_s)) line.more.emplace_back("mfu", *share);
  line.times = std::move(times);
  return line;
}

absl::Status RunExecutor(const BenchJob& job, const Dataset& data, const std::string& executor) {
  Config config = job.config;
  std::optional<ValueFault> fault =
      SetValue(*FindField("executor"), {.kind = YamlNode::kScalar, .text = executor}, config);
  WEFT_CHECK(!fault, "executor: " + fault->what);
  Runtime runtime = job.runtime();
  TrainingStep step(ModelOf(config), RunOptionsOf(config, job.context, job.mesh, job.device));
  CheckSame(job.mesh.World(), step.CommHash(),
            "would issue other collectives than rank 0: do all ranks run the same build?");
  std::optional<StepPlans> plans;
  if (ExecutorOf(config) == ExecutorKind::kCompiled) plans = step.Compile(runtime);
  MemoryNeed need = MemoryNeedOf(step, plans ? &*plans : nullptr, job.device);
  if (need.communicators > 0) need.communicators -= kNcclMeetingBytes;  // the mesh has already allocated them
  if (absl::Status s = CheckMemory(need, config, runtime.memory(), job.mesh.World()); !s.ok()) return s;
  State state(job.mesh.shape(), job.mesh.coords(), runtime.memory());
  step.AddEntries(state);
  step.InitParameters(state, runtime);
  Slots slots(state, data, step.options());
  slots.SetStep(1, LearningRate(config, 1));
  slots.FillTrain(1, 0);
  std::unique_ptr<StepRunner> runner = MakeRunner(ExecutorOf(config), state, step, runtime, std::move(plans));
  StepIssuer issuer(*runner);
  CallTimes times = job.Time([&](int64_t calls) { issuer.Issue(calls); });
  issuer.Finish();
  job.Print(LineOf(job, step, executor, std::move(times)));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunStepBench(const BenchJob& job) {
  absl::StatusOr<std::vector<std::string>> executors = BenchExecutors(job.words);
  if (!executors.ok()) return executors.status();
  absl::StatusOr<Dataset> data = Dataset::Load(job.config);
  if (!data.ok()) return data.status();
  job.PrintHead();
  for (const std::string& executor : *executors)
    if (absl::Status s = RunExecutor(job, *data, executor); !s.ok()) return s;
  return absl::OkStatus();
}

}  // namespace weft
