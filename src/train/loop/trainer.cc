#include "weft/train/loop/trainer.h"

#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "weft/core/compile/comm_plan.h"
#include "weft/dist/group/consensus.h"
#include "weft/dist/group/nccl/nccl_memory.h"
#include "weft/parallel/step/kernel_choices.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/model_of.h"
#include "weft/train/log/standard_output.h"
#include "weft/train/loop/training_loop.h"
#include "weft/train/preflight/memory_check.h"
#include "weft/train/preflight/regather.h"
#include "weft/train/preflight/window_check.h"

namespace weft {

Trainer::Trainer(const Config& config, const Dataset& data, const Context& context, DeviceMesh& mesh, DeviceKind device,
                 const RunServices& services)
    : config_(config),
      data_(data),
      context_(context),
      mesh_(mesh),
      services_(services),
      own_notices_(context.rank() == 0),
      notices_(services.notices ? *services.notices : own_notices_),
      step_(ModelOf(config), RunOptionsOf(config, context, mesh, device)),
      runtime_(RuntimeOf(context, mesh, device)) {
  CheckSame(mesh.World(), step_.CommHash(),
            "would issue other collectives than rank 0: do all ranks run the same build?");
  Note(StartPhase::kGraphMade);
}

void Trainer::Note(StartPhase phase) const {
  if (services_.times) services_.times->Note(phase);
}

// In order of construction. Each part uses parts before it.
struct Trainer::Parts {
  Parts(RunStart s, State entries) : start(std::move(s)), state(std::move(entries)) {}

  RunStart start;
  State state;
  std::unique_ptr<Slots> slots;
  std::unique_ptr<StepRunner> runner;
  std::unique_ptr<RunReporter> reporter;
  // While alive, copies notices to the log.
  struct Following {
    Following(Notices& channel, RunReporter& log) : notices(channel) {
      notices.Follow([&log](const std::string& text) { log.Write(NoteRecord{text}); });
    }
    ~Following() { notices.Follow(nullptr); }
    Following(const Following&) = delete;
    Following& operator=(const Following&) = delete;

    Notices& notices;
  };
  std::unique_ptr<Following> following;
  std::unique_ptr<CheckpointPolicy> checkpoints;
  std::unique_ptr<StepProfiler> profiler;  // null: no profile
};

Trainer::~Trainer() = default;

absl::Status Trainer::Run() {
  absl::StatusOr<RunStart> start = RunStart::Find(config_, data_, mesh_.World(), notices_);
  if (!start.ok()) return start.status();
  if (start->is_needed(config_)) {
    if (absl::Status s = CheckProfiledSteps(config_, start->step()); !s.ok()) return s;
    return RunFrom(*std::move(start));
  }
  if (context_.rank() != 0) return absl::OkStatus();
  return Print(fmt::format("nothing to do: {} is of step {}, and train.steps is {}\n", start->folder(), start->step(),
                           config_.train.steps));
}

absl::Status Trainer::CheckMemoryFor(const std::optional<StepPlans>& plans) {
  MemoryNeed need = MemoryNeedOf(step_, plans ? &*plans : nullptr, runtime_.device);
  if (!config_.checkpoint.dir.empty()) need += SnapshotNeedOf(step_, mesh_.coords(), runtime_.device);
  if (sampler_) need += sampler_->Need();
  need += HeldDataNeed(data_.HeldBytes(), runtime_.device);
  if (need.communicators > 0) need.communicators -= kNcclMeetingBytes;  // the mesh has allocated them already
  absl::Status status = CheckMemory(need, config_, runtime_.memory(), mesh_.World());
  if (status.ok()) return status;
  bool combines = plans && context_.numerics().combine;
  return {status.code(), std::string(status.message()) + KeysForLess(need, step_.options().model, combines)};
}

absl::StatusOr<std::optional<StepPlans>> Trainer::MakePlans() {
  std::optional<StepPlans> plans;
  if (ExecutorOf(config_) == ExecutorKind::kCompiled) plans = step_.Compile(runtime_);
  if (plans && mesh_.size() > 1 && ArrangesCollectives(runtime_))
    CheckSame(mesh_.World(), plans->CommHash(runtime_),
              "would issue its collectives in another order or in other groups than rank 0: do all ranks run the same "
              "build?");
  const StepPlans* compiled = plans ? &*plans : nullptr;
  if (absl::Status s = CheckWindows(config_, step_.options(), compiled, runtime_.device); !s.ok()) return s;
  if (absl::Status s = CheckMemoryFor(plans); !s.ok()) return s;
  Note(StartPhase::kPlanned);
  return plans;
}

absl::Status Trainer::RunFrom(RunStart found) {
  absl::StatusOr<std::optional<StepPlans>> plans = MakePlans();
  if (!plans.ok()) return plans.status();
  State state(mesh_.shape(), mesh_.coords(), runtime_.memory());
  step_.AddEntries(state);
  parts_ = std::make_unique<Parts>(std::move(found), std::move(state));
  Parts& p = *parts_;
  if (sampler_) sampler_->Bind(p.state);
  p.slots = std::make_unique<Slots>(p.state, data_, step_.options());
  if (absl::Status s = p.start.SetState(config_, p.state, step_, runtime_, mesh_.World(), notices_); !s.ok()) return s;
  p.slots->StartAt(p.start.position());
  Note(StartPhase::kWeightsSet);
  p.runner = MakeRunner(ExecutorOf(config_), p.state, step_, runtime_, *std::move(plans));
  Mfu mfu(step_.model(), config_.model.context, config_.precision.compute, runtime_.memory().name(),
          context_.world_size());
  absl::StatusOr<RunReporter> reporter =
      RunReporter::Open(config_, Started(p.start, *p.runner), mfu, mesh_.World(), notices_);
  if (!reporter.ok()) return reporter.status();
  p.reporter = std::make_unique<RunReporter>(*std::move(reporter));
  p.following = std::make_unique<Parts::Following>(notices_, *p.reporter);
  p.checkpoints = std::make_unique<CheckpointPolicy>(config_, data_, p.start, p.state, mesh_.World(), *p.reporter,
                                                     notices_, services_.activity);
  if (!config_.profile.steps.empty())
    p.profiler = std::make_unique<StepProfiler>(config_, mesh_, *p.runner, runtime_.device, notices_);
  Note(StartPhase::kReady);
  TrainingLoop loop({.config = config_,
                     .data = data_,
                     .step = step_,
                     .device = runtime_.memory(),
                     .start = p.start,
                     .slots = *p.slots,
                     .runner = *p.runner,
                     .reporter = *p.reporter,
                     .checkpoints = *p.checkpoints,
                     .stop = services_.stop,
                     .times = services_.times,
                     .sampler = sampler_.get(),
                     .profiler = p.profiler.get()});
  return loop.Run();
}

StartRecord Trainer::Started(const RunStart& start, const StepRunner& runner) const {
  StartRecord record{
      .version = WEFT_VERSION, .config = ToYaml(config_), .ranks = context_.world_size(), .mesh = mesh_.shape()};
  for (const Parameter* p : step_.model().Parameters()) record.parameters += NumElements(p->shape());
  record.steps = config_.train.steps;
  record.tokens_per_step = config_.train.global_batch * config_.model.context;
  record.train_tokens = data_.train().size();
  record.val_tokens = data_.val().size();
  record.kernels = KernelChoices(step_.step().graph, runtime_);
  record.device = Name(runtime_.device);
  record.unix_time = int64_t(std::time(nullptr));
  record.init = start.weights();
  record.global_nodes = int64_t(step_.global_nodes());
  record.local_nodes = int64_t(step_.step().graph.nodes.size());
  record.arena_bytes = int64_t(runner.arena_bytes());
  record.data_bytes = data_.HeldBytes();
  if (start.folder().empty()) return record;
  record.resumed_step = start.step();
  record.resumed_from = start.folder();
  return record;
}

}  // namespace weft
