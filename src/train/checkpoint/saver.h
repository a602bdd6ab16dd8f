// CheckpointSaver: saves the state concurrently with training. Start makes the device copy the state to the host. A
// thread waits for the copies, writes them, agrees with the other ranks that all have written, and lets rank 0 rename
// the folder.
//
//   CheckpointSaver saver(state, mesh.World(), {.dir = "checkpoints", .keep = 2, .config = ToYaml(config)});
//   status = saver.Start({.step = 100});      // on all ranks
//   saver.WaitForCopy();                      // the state may change from here on
//   saver.Join();                             // the group may be used from here on
//   status = saver.Wait();
//
// Between Start and Join or Wait only the thread may use the group. The other ranks wait for a rank with slow storage.
// They time out only if its save makes no progress during the group's timeout.
#pragma once
#include <chrono>
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
  int64_t sequences = 0;                // position in the data: sequences of all steps so far
  bool eval_due = false;                // an evaluation follows the step
  std::vector<int64_t> of_source = {};  // how many sequences came from each source of a mixture
};

// A complete checkpoint, with the time and space it took.
struct SavedCheckpoint {
  int64_t step = 0;
  std::string folder;
  double seconds = 0;  // from the copies to the rename, most of it concurrent with training
  uint64_t bytes = 0;  // of the files of all ranks
  double stall = 0;    // seconds for which training was blocked, on the rank that waited longest
};

class CheckpointSaver {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    std::string dir;
    int64_t keep = 0;                      // number of this run's checkpoints to keep; 0: all
    std::set<int64_t> earlier;             // steps of the checkpoints that this run already has in `dir`
    std::string config;                    // as YAML
    const Tokenizer* tokenizer = nullptr;  // must outlive the saver; null: the data has none
    // Receives descriptions of this rank's save; must outlive the saver; may be null.
    RankActivity* activity = nullptr;
    // On rank 0, reports problems that do not stop the run; must outlive the saver; may be null.
    Notices* notices = nullptr;
    // Called on rank 0 by the saving thread. May be null.
    std::function<void(const SavedCheckpoint& saved)> saved;
  };
  // All ranks must construct one. State and group must outlive the saver.
  CheckpointSaver(State& state, ProcessGroup& world, Options options);
  ~CheckpointSaver();

  // Waits for the previous save and starts this one. If the previous save failed, completes this one before it returns,
  // and returns an error if it fails too; the run must then end. Returns the same result on all ranks. Set `last` if
  // Wait follows directly; then a failure is reported only by Wait.
  absl::Status Start(const SavedPosition& position, bool last = false);
  // Waits until the current save has copied the state, which must not change before. Returns the time waited, which is
  // 0 without a current save. Throws the error of a failed device.
  Clock::duration WaitForCopy();
  // Waits for the end of the current save, whose status and errors are left for Wait.
  void Join();
  // Waits for the end of the current save and returns its status. Rethrows errors of collectives and of the device.
  absl::Status Wait();
  // Records that the evaluation after `step` is done. Once the checkpoint of that step is saved too, marks it as
  // evaluated. If the mark cannot be written, a run that resumes there repeats the evaluation.
  void NoteEvaluated(int64_t step);

 private:
  // `begin` is the time at which the copies began.
  void Run(const SavedPosition& position, Clock::time_point begin, bool last);
  absl::Status Save(const SavedPosition& position);
  absl::Status Together(const std::function<absl::Status()>& work);
  bool StillBusy(const std::future<absl::Status>& done, uint64_t& seen) const;
  absl::Status Prepare(const SavedPosition& position);
  absl::Status Commit(const SavedPosition& position, const std::vector<std::string>& parts);
  absl::Status WriteTexts(const std::string& folder, Manifest& manifest);
  void Report(bool last);
  void NoteUnstaged();
  double Stall();
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
  SavedCheckpoint saving_;  // used by the thread
  bool copying_ = false;    // WaitForCopy has not been called since
  // Held while training waits for the copies. The thread ends after them, so it finds the whole stall.
  std::mutex stall_mutex_;
  Clock::duration stall_{};
  bool prepared_ = false;  // whether leftovers of killed runs were removed
  bool noted_ = false;     // whether a leftover that cannot be removed was reported
  std::thread thread_;
  absl::Status status_;
  std::exception_ptr thrown_;
  std::exception_ptr work_error_;  // an exception of the work, rethrown when the other ranks know of the failure
  std::mutex mutex_;               // protects the next two
  int64_t saved_ = -1, evaluated_ = -1;
};

}  // namespace weft
