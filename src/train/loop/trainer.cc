#include "weft/train/loop/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "weft/dist/group/consensus.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/config/model_of.h"
#include "weft/train/config/schedule.h"
#include "weft/train/huggingface/initial_weights.h"
#include "weft/train/log/standard_output.h"
#include "weft/train/loop/evaluation.h"
#include "weft/train/preflight/memory_check.h"

namespace weft {
namespace {

StepOptions OptionsFor(const Config& config, const Context& context, DeviceKind device) {
  StepOptions options = StepOptionsOf(config);
  options.kernels = &context.kernels(device);
  return options;
}

using Clock = std::chrono::steady_clock;
double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(const Config& config, const Dataset& data, const Context& context, DeviceMesh& mesh, DeviceKind device,
                 StopGate* stop, RankActivity* activity)
    : config_(config),
      data_(data),
      context_(context),
      mesh_(mesh),
      stop_(stop),
      activity_(activity),
      step_(ModelOf(config), OptionsFor(config, context, device)),
      runtime_{&context, &mesh, mesh.shape(), mesh.coords(), device},
      state_(mesh.shape(), mesh.coords(), runtime_.memory()),
      mfu_(step_.model(), config.model.context, config.precision.compute, runtime_.memory().name(),
           context.world_size()) {
  CheckSame(mesh.World(), step_.CommHash(),
            "would issue other collectives than rank 0: do all ranks run the same build?");
}
Trainer::~Trainer() = default;

absl::Status Trainer::Allocate() {
  ExecutorKind executor = ExecutorOf(config_);
  std::optional<StepPlans> plans;
  if (executor == ExecutorKind::kCompiled) plans = step_.Compile(runtime_);
  MemoryNeed need = MemoryNeedOf(step_, plans ? &*plans : nullptr, runtime_.device);
  if (!config_.checkpoint.dir.empty()) need += SnapshotNeedOf(step_, mesh_.coords(), runtime_.device);
  if (absl::Status s = CheckMemory(need, runtime_.memory(), mesh_.World()); !s.ok()) return s;
  step_.AddEntries(state_);
  slots_.emplace(state_, data_, step_.options());
  if (absl::Status s = SetParameters(); !s.ok()) return s;
  slots_->StartAt(start_);
  runner_ = MakeRunner(executor, state_, step_, runtime_, std::move(plans));
  if (const CheckpointConfig& c = config_.checkpoint; !c.dir.empty())
    saver_ = std::make_unique<CheckpointSaver>(state_, mesh_.World(),
                                               CheckpointSaver::Options{.dir = c.dir,
                                                                        .keep = c.keep,
                                                                        .earlier = EarlierSteps(),
                                                                        .config = ToYaml(config_),
                                                                        .tokenizer = data_.tokenizer(),
                                                                        .activity = activity_});
  return absl::OkStatus();
}

absl::Status Trainer::SetParameters() {
  MemoryUse use("initial values");
  if (resumed_.checkpoint) {
    if (absl::Status s = resumed_.checkpoint->Load(state_); !s.ok()) return s;
    resumed_.checkpoint.reset();
    step_.sharded().RefreshCopies(state_, runtime_);
    return absl::OkStatus();
  }
  if (config_.model.init.empty()) {
    step_.InitParameters(state_, runtime_);
    return absl::OkStatus();
  }
  absl::StatusOr<InitialWeights> weights = InitialWeights::Open(config_);
  if (!weights.ok()) Fail(std::string(weights.status().message()));
  CheckSame(mesh_.World(), weights->Hash(),
            "has other weights in model.init than rank 0: compare the files with sha256sum");
  weights->Load(state_, step_.sharded(), runtime_);
  init_summary_ = weights->Summary();
  return absl::OkStatus();
}

absl::Status Trainer::LogEval(int64_t step) {
  std::optional<EvalRecord> result = Evaluate(config_, data_, *slots_, step_.options().rows, [&] {
    stopped_ = !Goes();
    return stopped_ ? std::nullopt : std::optional(runner_->Eval());
  });
  if (!result) return absl::OkStatus();
  EvalRecord record = *result;
  record.step = step;
  if (absl::Status s = CheckFinite(record); !s.ok()) return s;
  last_val_loss_ = record.val_loss;
  eval_due_ = false;
  Log(record);
  return absl::OkStatus();
}

bool Trainer::EvalDue(int64_t step) const {
  bool due = step == config_.train.steps || (config_.train.eval_every > 0 && step % config_.train.eval_every == 0);
  return due && data_.eval_windows() > 0;
}

void Trainer::IssueStep(int64_t step) {
  slots_->SetStep(step, LearningRate(config_, step));
  runner_->Issue([&](int micro) { slots_->FillTrain(step, micro); });
}

absl::Status Trainer::FinishStep(int64_t step) {
  StepMetrics metrics = runner_->Wait();
  StepRecord record{.step = step, .loss = metrics.loss, .grad_norm = metrics.grad_norm};
  record.ms = MsSince(std::exchange(last_, Clock::now()));
  record.loss_scale = metrics.loss_scale;
  record.skipped = metrics.skipped;
  LogStep(record);
  return CheckFinite(record, config_.loss_scale.min);
}

absl::Status Trainer::Run() {
  if (absl::Status s = Resume(); !s.ok()) return s;
  if (start_.step >= config_.train.steps && !eval_due_) {
    if (!Reports()) return absl::OkStatus();
    return Print(fmt::format("nothing to do: {} is of step {}, and train.steps is {}\n", resumed_from_, start_.step,
                             config_.train.steps));
  }
  if (absl::Status s = Allocate(); !s.ok()) return s;
  Clock::time_point begin = Clock::now();
  if (absl::Status s = LogStart(); !s.ok()) return s;
  int64_t step = start_.step;
  if (absl::Status s = MakeUpEval(); !s.ok()) return s;
  if (absl::Status s = Train(&step); !s.ok()) return s;
  if (stopped_) return Stop(step);
  if (saver_)
    if (absl::Status s = saver_->Wait(); !s.ok()) return s;
  Log(EndRecord{.step = step, .seconds = MsSince(begin) / 1e3, .loss = last_loss_, .val_loss = last_val_loss_});
  return CheckLog();
}

// What a stop or a death has cut short comes first.
absl::Status Trainer::MakeUpEval() {
  if (!eval_due_) return absl::OkStatus();
  if (absl::Status s = LogEval(start_.step); !s.ok() || stopped_) return s;
  if (Reports()) MarkEvaluated(resumed_from_).IgnoreError();  // else the next run makes it again
  return absl::OkStatus();
}

// The state is written beside the evaluation, in which a run may end as well as in a step.
absl::Status Trainer::SaveAndEval(int64_t step) {
  if (SaveDue(step))
    if (absl::Status s = Save(step); !s.ok()) return s;
  if (!eval_due_) return absl::OkStatus();
  if (absl::Status s = LogEval(step); !s.ok()) return s;
  if (saver_ && !eval_due_) saver_->NoteEvaluated(step);
  return absl::OkStatus();
}

// *step is the last that was begun, and all of them are finished.
absl::Status Trainer::Train(int64_t* step) {
  // A device that works apart from the host is given the next step before the latest one is waited for.
  int64_t ahead = runtime_.device == DeviceKind::kCpu ? 0 : StepRunner::kInFlight - 1, finished = start_.step;
  auto finish = [&](int64_t until) {
    while (finished < until)
      if (absl::Status s = FinishStep(++finished); !s.ok()) return s;
    return absl::OkStatus();
  };
  last_ = Clock::now();
  while (*step < config_.train.steps && !stopped_) {
    if (stopped_ = !Goes(); stopped_) break;
    IssueStep(++*step);
    eval_due_ = EvalDue(*step);
    bool pause = eval_due_ || SaveDue(*step) || *step == config_.train.steps;
    if (absl::Status s = finish(pause ? *step : *step - ahead); !s.ok()) return s;
    if (!pause) continue;
    if (absl::Status s = SaveAndEval(*step); !s.ok()) return s;
    last_ = Clock::now();
  }
  return finish(*step);
}

}  // namespace weft
