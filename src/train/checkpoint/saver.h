// CheckpointSaver: saves the state beside the training. Start copies it to the host; a thread writes it, agrees with
// the other ranks that all have written, and lets rank 0 give the folder its name.
//
//   CheckpointSaver saver(state, mesh.World(), {.dir = "checkpoints", .keep = 2, .config = ToYaml(config)});
//   status = saver.Start({.step = 100});      // on all ranks alike
//   status = saver.Wait();
//
// Between Start and Wait the group is the thread's. A rank whose storage is slow is late for the others only when its
// save makes no progress for as long as the group's timeout.
#pragma once
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "weft/core/host/notice.h"
#include "weft/dist/group/process_group.h"
#include "weft/dist/group/rank_activity.h"
#include "weft/train/checkpoint/snapshot.h"
#include "weft/train/io/save_progress.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

struct SavedPosition {
  int64_t step = 0, seed = 0;
  int64_t sequences = 0;                // of the data, in all steps so far
  bool eval_due = false;                // an evaluation follows the step
  std::vector<int64_t> of_source = {};  // of the sequences, those of each source of a mixture
};

class CheckpointSaver {
 public:
  struct Options {
    std::string dir;
    int64_t keep = 0;                      // of this run's; 0: all
    std::set<int64_t> earlier;             // steps of those that this run has in `dir` already
    std::string config;                    // as YAML
    const Tokenizer* tokenizer = nullptr;  // outlives the saver; null: the data has none
    RankActivity* activity = nullptr;      // gets what this rank saves; outlives the saver; null: nobody asks
    Notices* notices = nullptr;            // of rank 0, says what stays behind; outlives the saver; null: nobody asks
    // On rank 0, from the thread that saves: the checkpoint of `step` is whole. Null: nobody asks.
    std::function<void(int64_t step, const std::string& folder, double seconds)> saved;
  };
  // State and group outlive the saver.
  CheckpointSaver(State& state, ProcessGroup& world, Options options);
  ~CheckpointSaver();

  // Waits for the save before. Where that failed, this one is finished before the run goes on, and where it fails too,
  // that is the answer: a run whose checkpoints fail is to end. The same on all ranks. `last`: Wait follows, whose
  // answer says what a failure is.
  absl::Status Start(const SavedPosition& position, bool last = false);
  // The end of the save that was started; throws what a collective threw.
  absl::Status Wait();
  // The evaluation that follows `step` is made; once its checkpoint is there too, that is said beside it. Where it
  // cannot be said, a run that goes on from there evaluates once more.
  void NoteEvaluated(int64_t step);

 private:
  void Run(const SavedPosition& position, bool last);
  absl::Status Save(const SavedPosition& position);
  absl::Status Together(const std::function<absl::Status()>& work);
  bool StillBusy(const std::future<absl::Status>& done, uint64_t& seen) const;
  absl::Status Prepare(const SavedPosition& position);
  absl::Status Commit(const SavedPosition& position, const std::vector<std::string>& crcs);
  void Report(int64_t step, double seconds, bool last);
  void NoteLeft(const absl::Status& removed);
  void NoteSaved(int64_t step);
  void MarkIfBoth();
  bool Leads() const { return world_.rank() == 0; }

  State& state_;
  ProcessGroup& world_;
  Options options_;
  std::set<int64_t> steps_;  // of this run's checkpoints in the folder
  Snapshot snapshot_;
  SaveProgress progress_;
  bool prepared_ = false;  // what killed runs have left is gone,
  bool noted_ = false;     //   or it was said that something stays
  std::thread thread_;
  absl::Status status_;
  std::exception_ptr thrown_;
  std::mutex mutex_;  // of these two
  int64_t saved_ = -1, evaluated_ = -1;
};

}  // namespace weft
