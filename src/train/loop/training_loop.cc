#include "weft/train/loop/training_loop.h"

#include <utility>

#include "weft/train/checkpoint/folder.h"
#include "weft/train/config/schedule.h"
#include "weft/train/loop/evaluation.h"

namespace weft {
namespace {

double MsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

absl::Status TrainingLoop::Run() {
  Clock::time_point begin = Clock::now();
  int64_t step = p_.start.step();
  if (absl::Status s = MakeUpEval(); !s.ok()) return s;
  if (absl::Status s = Train(&step); !s.ok()) return s;
  if (stopped_) return Stop(step);
  if (absl::Status s = p_.checkpoints.Wait(); !s.ok()) return s;
  p_.reporter.WriteEnd(step, MsSince(begin) / 1e3);
  return p_.reporter.Close();
}

// Makes the evaluation that a stop or a crash of the previous run left out, before the first step.
absl::Status TrainingLoop::MakeUpEval() {
  if (!eval_due_) return absl::OkStatus();
  if (absl::Status s = Eval(p_.start.step()); !s.ok() || stopped_) return s;
  // If this fails, the next run repeats the evaluation.
  if (p_.reporter.IsOpen()) MarkEvaluated(p_.start.folder()).IgnoreError();
  return absl::OkStatus();
}

// Sets *step to the last step that was begun. On success all steps up to it are finished.
absl::Status TrainingLoop::Train(int64_t* step) {
  // A device that works asynchronously gets the next step before the host waits for the latest one.
  int64_t ahead = p_.device.device().kind == DeviceKind::kCpu ? 0 : StepRunner::kInFlight - 1, finished = *step;
  auto finish = [&](int64_t until) {
    while (finished < until)
      if (absl::Status s = FinishStep(++finished); !s.ok()) return s;
    return absl::OkStatus();
  };
  last_ = Clock::now();
  while (*step < p_.config.train.steps && !stopped_) {
    if (stopped_ = !Goes(); stopped_) break;
    BeginProfile(*step + 1);
    IssueStep(++*step);
    eval_due_ = EvalDue(*step);
    bool pause = PauseDue(*step);
    if (absl::Status s = finish(pause ? *step : *step - ahead); !s.ok()) return s;
    if (!pause) continue;
    EndProfile(*step);
    if (absl::Status s = SaveAndEval(*step); !s.ok()) return s;
    if (SampleDue(*step))
      if (absl::Status s = Sample(*step); !s.ok()) return s;
    last_ = Clock::now();
  }
  if (absl::Status s = finish(*step); !s.ok()) return s;
  EndProfile(*step);
  return absl::OkStatus();
}

// Whether all steps up to this one must be finished before the next one begins.
bool TrainingLoop::PauseDue(int64_t step) const {
  return eval_due_ || SampleDue(step) || p_.checkpoints.IsDue(step) || step == p_.config.train.steps ||
         (p_.profiler && p_.profiler->IsBorder(step));
}

void TrainingLoop::BeginProfile(int64_t step) {
  if (!p_.profiler || !p_.profiler->BeginsWith(step)) return;
  p_.checkpoints.Join();  // a save uses the group that the profiler uses
  p_.profiler->Begin();
}

void TrainingLoop::EndProfile(int64_t step) {
  if (!p_.profiler || !p_.profiler->IsDue(step, stopped_)) return;
  p_.checkpoints.Join();
  absl::StatusOr<ProfileRecord> record = p_.profiler->Finish(step);
  if (record.ok())
    p_.reporter.Write(*record);
  else
    p_.reporter.NoteLost(record.status());
}

// Starts the save before the evaluation and writes concurrently with it, because a run may also end in an evaluation.
absl::Status TrainingLoop::SaveAndEval(int64_t step) {
  if (p_.checkpoints.IsDue(step))
    if (absl::Status s = p_.checkpoints.Save(step, {.eval = eval_due_, .nothing = stopped_}); !s.ok()) return s;
  if (!eval_due_) return absl::OkStatus();
  if (absl::Status s = Eval(step); !s.ok()) return s;
  if (!eval_due_) p_.checkpoints.NoteEvaluated(step);
  return absl::OkStatus();
}

// Logs the stop last, after everything is saved.
absl::Status TrainingLoop::Stop(int64_t step) {
  if (absl::Status s = p_.checkpoints.SaveAtStop(step, eval_due_); !s.ok()) return s;
  if (p_.reporter.IsOpen())
    p_.reporter.Write(StopRecord{.step = step, .reason = p_.stop->cause(), .advice = p_.checkpoints.HowToGoOn(step)});
  return p_.reporter.Close();
}

// The last micro-step updates the state, so a save must have copied it before. The other micro-steps, and evaluations,
// run concurrently with the copies. Step times exclude the wait, which the save reports.
void TrainingLoop::IssueStep(int64_t step) {
  p_.slots.SetStep(step, LearningRate(p_.config, step));
  p_.runner.Issue([&](int micro) {
    p_.slots.FillTrain(step, micro);
    if (micro + 1 == p_.step.options().micro_steps) last_ += p_.checkpoints.WaitForCopy();
  });
}

absl::Status TrainingLoop::FinishStep(int64_t step) {
  StepMetrics metrics = p_.runner.Wait();
  StepRecord record{.step = step, .loss = metrics.loss, .grad_norm = metrics.grad_norm};
  record.ms = MsSince(std::exchange(last_, Clock::now()));
  record.loss_scale = metrics.loss_scale;
  record.skipped = metrics.skipped;
  if (p_.reporter.IsOpen()) record.peak_bytes = int64_t(p_.device.PeakBytes());
  bool ends_start = p_.times && step == p_.start.step() + 1;
  if (ends_start) p_.times->Note(StartPhase::kStepDone);
  p_.reporter.WriteStep(record);
  if (ends_start) p_.reporter.Write(StartupRecord{p_.times->seconds()});
  return CheckFinite(record, p_.config.loss_scale.min);
}

bool TrainingLoop::EvalDue(int64_t step) const {
  const TrainConfig& train = p_.config.train;
  bool due = step == train.steps || (train.eval_every > 0 && step % train.eval_every == 0);
  return due && p_.data.eval_windows() > 0;
}

bool TrainingLoop::SampleDue(int64_t step) const { return p_.sampler && step % p_.config.train.sample_every == 0; }

absl::Status TrainingLoop::Sample(int64_t step) {
  absl::StatusOr<std::string> text = p_.sampler->Text();
  if (!text.ok()) return text.status();
  p_.reporter.Write(SampleRecord{.step = step, .text = *std::move(text)});
  return absl::OkStatus();
}

absl::Status TrainingLoop::Eval(int64_t step) {
  auto eval = [&] {
    stopped_ = !Goes();
    return stopped_ ? std::nullopt : std::optional(p_.runner.Eval());
  };
  auto progress = [&](ProgressRecord now) {
    now.step = step;
    p_.reporter.Write(now);
  };
  std::optional<EvalRecord> record = Evaluate(p_.config, p_.data, p_.slots, p_.step.options().rows, eval, progress);
  if (!record) return absl::OkStatus();
  record->step = step;
  if (absl::Status s = CheckFinite(*record); !s.ok()) return s;
  eval_due_ = false;
  p_.reporter.WriteEval(*record);
  return absl::OkStatus();
}

}  // namespace weft
