// What the trainer has to do with checkpoints: where it goes on from, and when it saves.
#include <fmt/format.h>

#include <filesystem>

#include "weft/core/host/host_name.h"
#include "weft/core/host/message.h"
#include "weft/dist/group/consensus.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/shared_folder.h"
#include "weft/train/config/config_check.h"
#include "weft/train/io/crc32c.h"
#include "weft/train/io/path_advice.h"
#include "weft/train/log/standard_output.h"
#include "weft/train/loop/trainer.h"

namespace weft {

absl::Status Trainer::Resume() {
  // Ranks that look into folders of their own would not agree on what is there.
  bool looks = config_.checkpoint.resume == "auto";
  if (looks)
    if (absl::Status s = MakeFolder(); !s.ok()) return s;
  absl::StatusOr<Resumed> resumed = FindResumed(config_, mesh_.World());
  if (!resumed.ok()) return resumed.status();
  resumed_ = *std::move(resumed);
  if (resumed_.checkpoint) {
    const Manifest& m = resumed_.checkpoint->manifest();
    if (absl::Status s = FirstFault(mesh_.World(), CheckTokenizer(m)); !s.ok()) return s;
    start_ = {m.step, m.sequences};
    resumed_from_ = resumed_.checkpoint->folder();
    Ranks ranks = RanksOf(mesh_.World());  // rank 0's view is everyone's
    bool made = ranks.gather(Reports() && IsEvaluated(resumed_from_) ? "1" : "0")[0] == "1";
    eval_due_ = m.eval_due && !made && m.step <= config_.train.steps && data_.eval_windows() > 0;
  }
  bool saves = !config_.checkpoint.dir.empty() && (start_.step < config_.train.steps || eval_due_);
  if (saves && !looks)
    if (absl::Status s = MakeFolder(); !s.ok()) return s;
  if (!Reports()) return absl::OkStatus();
  for (const std::string& note : resumed_.notes)
    if (absl::Status s = Print(note + "\n"); !s.ok()) return s;
  std::vector<int64_t> there = StepsIn(config_.checkpoint.dir);
  if (!there.empty() && there[0] > start_.step)
    PrintStderr(
        "note: {} holds checkpoints of steps past {}, where this run starts, up to {}: those of the same steps will "
        "be replaced, and checkpoint.resume=auto takes the highest step\n",
        config_.checkpoint.dir, start_.step, there[0]);
  return absl::OkStatus();
}

// Tokens of another tokenizer with as many kinds would train, and mean something else.
absl::Status Trainer::CheckTokenizer(const Manifest& saved) const {
  const Tokenizer* mine = data_.tokenizer();
  for (const SavedFile& file : saved.files)
    if (mine && file.name == mine->names().file && file.header_crc != Crc32c(mine->files().table))
      return absl::InvalidArgumentError(fmt::format(
          "{}expected the tokenizer of {}, which lies there as {}, got another one of its kind; train on its "
          "tokens, or start anew with checkpoint.resume=never",
          PlaceOf(config_, "data.tokenizer"), resumed_.checkpoint->folder(), file.name));
  return absl::OkStatus();
}

// What cannot be written after many steps is said before the first.
absl::Status Trainer::MakeFolder() {
  Ranks ranks = RanksOf(mesh_.World());
  ranks.host = HostName();
  absl::Status made = MakeSharedFolder(config_.checkpoint.dir, ranks);
  if (made.ok()) made = FirstFault(ranks, Reports() ? in_use_.Take(config_.checkpoint.dir) : made);
  if (made.ok()) return made;
  return absl::InvalidArgumentError(PlaceOf(config_, "checkpoint.dir") + std::string(made.message()));
}

// A run that goes on in the folder of one before it takes over what lies there up to its own start. What lies past it,
// another run's or broken, is not its own to remove, and must not count: of what it keeps, the newest is whole.
std::set<int64_t> Trainer::EarlierSteps() const {
  std::error_code error;
  std::filesystem::path from = std::filesystem::weakly_canonical(resumed_from_, error).parent_path();
  if (resumed_from_.empty() || !std::filesystem::equivalent(from, config_.checkpoint.dir, error)) return {};
  std::vector<int64_t> there = StepsIn(config_.checkpoint.dir);
  std::erase_if(there, [&](int64_t step) { return step > start_.step; });
  return {there.begin(), there.end()};
}

bool Trainer::SaveDue(int64_t step) const {
  int64_t every = config_.checkpoint.every;
  return saver_ && (step == config_.train.steps || (every > 0 && step % every == 0));
}

absl::Status Trainer::Save(int64_t step) {
  bool last = stopped_ || step == config_.train.steps;
  return saver_->Start({step, config_.train.seed, data_.PositionAfter(step, start_).sequences, eval_due_}, last);
}

// auto goes by the step, and another run may have gone further.
std::string Trainer::HowToGoOn(int64_t step) const {
  if (!saver_) return "nothing is saved, for there is no checkpoint.dir";
  if (step == start_.step) return "no step was done, so start it as before";
  const std::string& dir = config_.checkpoint.dir;
  std::vector<int64_t> there = StepsIn(dir);
  if (there.empty() || there[0] <= step) return "go on with checkpoint.resume=auto";
  return fmt::format("go on with checkpoint.resume={}, as auto would take {}", ShellWord(StepFolder(dir, step)),
                     StepFolder(dir, there[0]));
}

// The log ends with the stop, once all that is to be saved is.
absl::Status Trainer::Stop(int64_t step) {
  bool wants = saver_ && !SaveDue(step) && step > start_.step;
  if (saver_ && !wants) wants = !saver_->Wait().ok();  // which has been said; the one try more that it has is now
  if (wants)
    if (absl::Status s = Save(step); !s.ok()) return s;
  if (saver_)
    if (absl::Status s = saver_->Wait(); !s.ok()) return s;
  if (Reports()) Log(StopRecord{.step = step, .reason = stop_->cause(), .advice = HowToGoOn(step)});
  return CheckLog();
}

}  // namespace weft
