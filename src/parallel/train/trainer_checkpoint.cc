// What the trainer has to do with checkpoints: where it goes on from, and when it saves.
#include <fmt/format.h>

#include "core/base/host_name.h"
#include "parallel/checkpoint/folder.h"
#include "parallel/checkpoint/shared_folder.h"
#include "parallel/train/config_check.h"
#include "parallel/train/trainer.h"

namespace weft {

absl::Status Trainer::Resume() {
  // Ranks that look into folders of their own would not agree on what is there.
  bool looks = config_.checkpoint.resume == "auto";
  if (looks)
    if (absl::Status s = MakeFolder(); !s.ok()) return s;
  absl::StatusOr<Resumed> resumed = FindResumed(config_, mesh_.World());
  if (!resumed.ok()) return resumed.status();
  resumed_ = *std::move(resumed);
  if (resumed_.checkpoint) start_ = {resumed_.checkpoint->manifest().step, resumed_.checkpoint->manifest().sequences};
  bool saves = !config_.checkpoint.dir.empty() && start_.step < config_.train.steps;
  if (saves && !looks)
    if (absl::Status s = MakeFolder(); !s.ok()) return s;
  if (!Reports()) return absl::OkStatus();
  for (const std::string& note : resumed_.notes) fmt::print("{}\n", note);
  std::vector<int64_t> there = StepsIn(config_.checkpoint.dir);
  if (!there.empty() && there[0] > start_.step)
    fmt::print(
        "note: {} holds checkpoints of steps past {}, where this run starts, up to {}: those of the same steps will "
        "be replaced, and checkpoint.resume=auto takes the highest step\n",
        config_.checkpoint.dir, start_.step, there[0]);
  return absl::OkStatus();
}

// What cannot be written after many steps is said before the first.
absl::Status Trainer::MakeFolder() {
  Ranks ranks = RanksOf(mesh_.World());
  ranks.host = HostName();
  absl::Status made = MakeSharedFolder(config_.checkpoint.dir, ranks);
  if (made.ok()) return made;
  return absl::InvalidArgumentError(PlaceOf(config_, "checkpoint.dir") + std::string(made.message()));
}

bool Trainer::SaveDue(int64_t step) const {
  int64_t every = config_.checkpoint.every;
  return saver_ && (step == config_.train.steps || (every > 0 && step % every == 0));
}

absl::Status Trainer::Save(int64_t step) {
  return saver_->Start({step, config_.train.seed, data_.PositionAfter(step, start_).sequences});
}

// The log of steps ends where the run did, without the event of a run that is done.
absl::Status Trainer::Stop(int64_t step) {
  if (saver_ && !SaveDue(step) && step > start_.step)
    if (absl::Status s = Save(step); !s.ok()) return s;
  if (saver_)
    if (absl::Status s = saver_->Wait(); !s.ok()) return s;
  if (!Reports()) return absl::OkStatus();
  fmt::print("stopped after step {} by {}; {}\n", step, stop_->cause(),
             saver_ ? "go on with checkpoint.resume=auto" : "nothing is saved, for there is no checkpoint.dir");
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace weft
