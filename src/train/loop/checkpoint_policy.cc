#include "weft/train/loop/checkpoint_policy.h"

#include <fmt/format.h>

#include <filesystem>

#include "weft/train/checkpoint/folder.h"
#include "weft/train/config/run_name.h"
#include "weft/train/io/path_advice.h"

namespace weft {

CheckpointPolicy::CheckpointPolicy(const Config& config, const Dataset& data, const RunStart& start, State& state,
                                   ProcessGroup& world, RunReporter& reporter, Notices& notices, RankActivity* activity)
    : config_(config), data_(data), start_(start), position_(start.position()) {
  const CheckpointConfig& c = config.checkpoint;
  if (c.dir.empty()) return;
  auto saved = [&reporter](const SavedCheckpoint& s) {
    reporter.Write(SaveRecord{
        .step = s.step, .folder = s.folder, .seconds = s.seconds, .bytes = int64_t(s.bytes), .stall = s.stall});
  };
  saver_ = std::make_unique<CheckpointSaver>(state, world,
                                             CheckpointSaver::Options{.dir = c.dir,
                                                                      .keep = c.keep,
                                                                      .earlier = EarlierSteps(),
                                                                      .config = ToYaml(config),
                                                                      .tokenizer = data.tokenizer(),
                                                                      .activity = activity,
                                                                      .notices = &notices,
                                                                      .saved = saved});
}

// A run that resumes in the folder of an earlier run takes over the checkpoints there up to its own start. Later ones
// belong to another run or are broken. This run must neither remove nor count them, so that the newest checkpoint that
// it keeps is whole.
std::set<int64_t> CheckpointPolicy::EarlierSteps() const {
  std::error_code error;
  std::filesystem::path from = std::filesystem::weakly_canonical(start_.folder(), error).parent_path();
  if (start_.folder().empty() || !std::filesystem::equivalent(from, config_.checkpoint.dir, error)) return {};
  std::vector<int64_t> there = StepsIn(config_.checkpoint.dir);
  std::erase_if(there, [&](int64_t step) { return step > start_.step(); });
  return {there.begin(), there.end()};
}

bool CheckpointPolicy::IsDue(int64_t step) const {
  int64_t every = config_.checkpoint.every;
  return saver_ && (step == config_.train.steps || (every > 0 && step % every == 0));
}

absl::Status CheckpointPolicy::Save(int64_t step, Follows follows) {
  position_ = data_.PositionAfter(step, position_);
  return saver_->Start({step,
                        config_.train.seed,
                        position_.sequences,
                        follows.eval,
                        {position_.of_source.begin(), position_.of_source.begin() + int64_t(data_.num_sources())}},
                       follows.nothing || step == config_.train.steps);
}

CheckpointSaver::Clock::duration CheckpointPolicy::WaitForCopy() {
  return saver_ ? saver_->WaitForCopy() : CheckpointSaver::Clock::duration{};
}

void CheckpointPolicy::NoteEvaluated(int64_t step) {
  if (saver_) saver_->NoteEvaluated(step);
}

void CheckpointPolicy::Join() {
  if (saver_) saver_->Join();
}

absl::Status CheckpointPolicy::Wait() { return saver_ ? saver_->Wait() : absl::OkStatus(); }

absl::Status CheckpointPolicy::SaveAtStop(int64_t step, bool eval_due) {
  if (!saver_) return absl::OkStatus();
  bool wants = !IsDue(step) && step > start_.step();
  if (!wants) wants = !saver_->Wait().ok();  // this failure was reported; the save has one more try, here
  if (wants)
    if (absl::Status s = Save(step, {.eval = eval_due, .nothing = true}); !s.ok()) return s;
  return saver_->Wait();
}

// checkpoint.resume=auto takes the highest step, and another run may have saved a higher one.
std::string CheckpointPolicy::HowToGoOn(int64_t step) const {
  if (!saver_) return "no checkpoint saved: checkpoint.dir is not set";
  if (step == start_.step()) return "no step was done, so start it as before";
  const std::string& dir = config_.checkpoint.dir;
  std::vector<int64_t> there = StepsIn(dir);
  if (there.empty() || there[0] <= step) return "continue with " + ResumeWords(config_);
  return fmt::format("continue with checkpoint.resume={}, as auto would take {}", ShellWord(StepFolder(dir, step)),
                     StepFolder(dir, there[0]));
}

}  // namespace weft
