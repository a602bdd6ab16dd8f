#include "weft/train/loop/run_start.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/host/host_name.h"
#include "weft/dist/group/consensus.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/shared_folder.h"
#include "weft/train/config/config_check.h"
#include "weft/train/huggingface/initial_weights.h"
#include "weft/train/io/crc32c.h"
#include "weft/train/log/standard_output.h"

namespace weft {
namespace {

// A different tokenizer with the same vocabulary size would train without an error, but its tokens have other meanings.
absl::Status CheckTokenizer(const Checkpoint& checkpoint, const Config& config, const Dataset& data) {
  const Tokenizer* mine = data.tokenizer();
  for (const SavedFile& file : checkpoint.manifest().files)
    if (mine && file.name == mine->names().file && file.header_crc != Crc32c(mine->files().table))
      return RefuseKey(
          config, "data.tokenizer",
          fmt::format("expected the tokenizer of {}, which lies there as {}, got another one of its kind; train on its "
                      "tokens, or start from the beginning with checkpoint.resume=never",
                      checkpoint.folder(), file.name));
  return absl::OkStatus();
}

absl::Status PrintLines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    if (absl::Status s = Print(line + "\n"); !s.ok()) return s;
  return absl::OkStatus();
}

void SayWhatIsThere(const Config& config, int64_t step, Notices& notices) {
  std::vector<int64_t> there = StepsIn(config.checkpoint.dir);
  if (there.empty() || there[0] <= step) return;
  notices.Say(fmt::format(
      "{} holds checkpoints of steps past {}, where this run starts, up to {}: those of the same steps will be "
      "replaced, and checkpoint.resume=auto takes the highest step",
      config.checkpoint.dir, step, there[0]));
}

}  // namespace

absl::StatusOr<RunStart> RunStart::Find(const Config& config, const Dataset& data, ProcessGroup& world,
                                        Notices& notices) {
  RunStart start;
  // Looking for a checkpoint requires a shared folder. Ranks with different folders would not agree on the contents.
  bool looks = config.checkpoint.resume == "auto";
  if (looks)
    if (absl::Status s = start.MakeFolder(config, world); !s.ok()) return s;
  absl::StatusOr<Resumed> resumed = FindResumed(config, world);
  if (!resumed.ok()) return resumed.status();
  std::vector<std::string> lines = std::move(resumed->lines), notes = std::move(resumed->notes);
  if (absl::Status s = start.Take(*std::move(resumed), config, data, world); !s.ok()) return s;
  if (std::string note = start.TakePosition(data); !note.empty()) notes.push_back(PlaceOf(config, "data.train") + note);
  bool saves = !config.checkpoint.dir.empty() && start.is_needed(config);
  if (saves && !looks)
    if (absl::Status s = start.MakeFolder(config, world); !s.ok()) return s;
  if (world.rank() != 0) return start;
  if (absl::Status s = PrintLines(lines); !s.ok()) return s;
  for (const std::string& note : notes) notices.Say(note);
  SayWhatIsThere(config, start.step(), notices);
  return start;
}

absl::Status RunStart::Take(Resumed resumed, const Config& config, const Dataset& data, ProcessGroup& world) {
  checkpoint_ = std::move(resumed.checkpoint);
  if (!checkpoint_) return absl::OkStatus();
  const Manifest& m = checkpoint_->manifest();
  if (absl::Status s = FirstFault(world, CheckTokenizer(*checkpoint_, config, data)); !s.ok()) return s;
  folder_ = checkpoint_->folder();
  // All ranks use rank 0's view.
  bool made = GatherBytes(world, world.rank() == 0 && IsEvaluated(folder_) ? "1" : "0")[0] == "1";
  eval_due_ = m.eval_due && !made && m.step <= config.train.steps && data.eval_windows() > 0;
  return absl::OkStatus();
}

// Sets the position of the run in the data. Returns a note if a mixture has another number of sources than the
// checkpoint, so that they start from their beginnings, or "".
std::string RunStart::TakePosition(const Dataset& data) {
  if (!checkpoint_) return "";
  const Manifest& m = checkpoint_->manifest();
  position_ = {m.step, m.sequences};
  if (m.of_source.size() == data.num_sources()) {
    std::copy(m.of_source.begin(), m.of_source.end(), position_.of_source.begin());
    return "";
  }
  if (data.num_sources() == 0) return "";
  return fmt::format("{} has the positions of {} sources, and there are {} now: each starts from its beginning",
                     folder_, m.of_source.size(), data.num_sources());
}

// Creates the folder and locks it before the first step, because a fault after many steps would lose them.
absl::Status RunStart::MakeFolder(const Config& config, ProcessGroup& world) {
  Ranks ranks = RanksOf(world);
  ranks.host = HostName();
  in_use_ = std::make_unique<PathLock>();
  absl::Status made = MakeSharedFolder(config.checkpoint.dir, ranks);
  if (made.ok()) made = FirstFault(ranks, world.rank() == 0 ? in_use_->Take(config.checkpoint.dir) : made);
  if (made.ok()) return made;
  return RefuseKey(config, "checkpoint.dir", made.message());
}

absl::Status RunStart::SetState(const Config& config, State& state, TrainingStep& step, const Runtime& runtime,
                                ProcessGroup& world, Notices& notices) {
  MemoryUse use("initial values");
  if (checkpoint_) {
    if (absl::Status s = checkpoint_->Load(state); !s.ok()) return s;
    for (const auto& [optimizer, parameters] : checkpoint_->StartedAnew(state))
      notices.Say(fmt::format("{} has nothing of {} for {} parameters: what it keeps of them starts at zero", folder_,
                              optimizer, parameters));
    checkpoint_.reset();
    step.sharded().RefreshCopies(state, runtime);
    return absl::OkStatus();
  }
  if (config.model.init.empty()) {
    step.InitParameters(state, runtime);
    return absl::OkStatus();
  }
  absl::StatusOr<InitialWeights> weights = InitialWeights::Open(config);
  if (!weights.ok()) Fail(std::string(weights.status().message()));
  CheckSame(world, weights->Hash(), "has other weights in model.init than rank 0: compare the files with sha256sum");
  weights->Load(state, step.sharded(), runtime);
  weights_ = weights->Summary();
  return absl::OkStatus();
}

}  // namespace weft
