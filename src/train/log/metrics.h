// Metrics: the records of a run, as JSON lines for programs and text lines for people. RunLog (train/log) writes them.
//
//   std::string json = JsonLine(record), shown = StepLine(record, steps, progress.SecondsLeft());
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "weft/core/base/mesh_shape.h"
#include "weft/train/log/start_times.h"

namespace weft {

struct StartRecord {
  std::string version, config;  // the merged config, as YAML
  int64_t ranks = 1;
  MeshShape mesh;  // each axis is logged under its name, such as "dp" or "tp"
  int64_t parameters = 0, steps = 0, tokens_per_step = 0, train_tokens = 0, val_tokens = 0;
  std::optional<int64_t> resumed_step;  // the run continues after this step
  std::string kernels;                  // of KernelChoices; "": no choices
  std::string device;                   // "cpu"
  int64_t data_bytes = 0;               // bytes of tokens that each rank holds in memory; 0: tokens stay in their files
  int64_t unix_time = 0;                // in seconds
  // For the terminal only.
  std::string resumed_from, init;  // the checkpoint, and the source of other initial weights; "": none
  int64_t global_nodes = 0, local_nodes = 0, arena_bytes = 0;
};

struct StepRecord {
  int64_t step = 0;  // counts from 1
  double loss = 0;   // nats per token, over the global batch
  double grad_norm = 0, lr = 0, ms = 0, tokens_per_s = 0;
  std::optional<double> mfu;          // fraction of the device's peak; none if the peak is unknown
  std::optional<int64_t> peak_bytes;  // peak memory of the rank that uses most
  std::optional<double> loss_scale;   // of this step; only in f16
  int64_t skipped = 0;                // f16: updates skipped so far because of non-finite gradients
};

// When each phase of the start ended, on rank 0. Logged after the first step.
struct StartupRecord {
  StartSeconds seconds;
};

struct EvalRecord {
  int64_t step = 0;
  double val_loss = 0;           // nats per token
  int64_t tokens = 0;            // number of targets
  std::optional<int64_t> bytes;  // bytes of text of the targets; none if unknown
  double ms = 0;
};

struct EndRecord {
  int64_t step = 0;
  double seconds = 0;
  std::optional<double> loss, val_loss;
};
struct StopRecord {
  int64_t step = 0;    // the last completed step
  std::string reason;  // "SIGTERM"
  std::string advice;  // how to resume; for the terminal only
};
struct SaveRecord {
  int64_t step = 0;              // the step whose state was saved
  std::string folder;            // the complete checkpoint
  double seconds = 0;            // duration of the save, most of it concurrent with training
  std::optional<int64_t> bytes;  // of the files of all ranks; none in logs from before it was measured
  std::optional<double> stall;   // seconds for which training was blocked; none in older logs
};
// Progress of an evaluation. For the terminal only.
struct ProgressRecord {
  int64_t step = 0;           // the last step before the evaluation
  int64_t done = 0, all = 0;  // in windows
  double seconds = 0;         // since the evaluation began
};
// A text sampled from the model. For the terminal only.
struct SampleRecord {
  int64_t step = 0;
  std::string text;
};
// A note that was printed on stderr (core/host/notice.h).
struct NoteRecord {
  std::string text;
};
struct ProfileRecord {
  int64_t first_step = 0, step = 0;  // the first and the last profiled step
  std::string path;                  // of the trace file
  double step_ms = 0;                // mean over steps and ranks
  // Fractions of that time. `collectives` is that in which no kernel runs, and waiting is part of it; `hidden` is the
  // rest of the collectives' time. kernels + collectives + neither = 1.
  double kernels = 0, collectives = 0, waiting = 0, hidden = 0, neither = 0;
  std::string table, note;  // terminal only: lines of the longest kernels and collectives; "": no note
};
using LogRecord = std::variant<StartRecord, StepRecord, EvalRecord, EndRecord, StopRecord, SaveRecord, ProgressRecord,
                               SampleRecord, NoteRecord, ProfileRecord, StartupRecord>;

// Return one JSON object without a newline. Doubles read back exactly; unknown and non-finite values are null.
std::string JsonLine(const StartRecord& record);
std::string JsonLine(const StepRecord& record);
std::string JsonLine(const EvalRecord& record);
std::string JsonLine(const EndRecord& record);
std::string JsonLine(const StopRecord& record);
std::string JsonLine(const SaveRecord& record);
std::string JsonLine(const NoteRecord& record);
std::string JsonLine(const ProfileRecord& record);
std::string JsonLine(const StartupRecord& record);
// Return "", because these records are not logged.
std::string JsonLine(const ProgressRecord& record);
std::string JsonLine(const SampleRecord& record);

// Return kAborted if a number that training or its evaluation depends on is not finite. The run must end there, because
// the next update would spread the number to every parameter. An evaluation without tokens has no loss and is refused
// too. A step whose loss scale was above `least_scale` may have non-finite gradients, because it updated nothing.
absl::Status CheckFinite(const StepRecord& record, double least_scale = 0);
absl::Status CheckFinite(const EvalRecord& record);

// Converts nats per token to bits per byte of text. Returns none if the number of bytes is unknown or 0.
std::optional<double> BitsPerByte(const EvalRecord& record);

// Lines for the terminal. `seconds_left` is unknown until a step has been timed.
std::string StartLines(const StartRecord& record);
// Parts that do not fit into `width` columns are left out, the least important first. Step and loss always stay.
std::string StepLine(const StepRecord& record, int64_t steps, std::optional<double> seconds_left,
                     size_t width = std::numeric_limits<size_t>::max());
std::string EvalLine(const EvalRecord& record, int64_t steps);
// For a run that continued after start_step.
std::string EndLine(const EndRecord& record, int64_t start_step);
std::string StopLine(const StopRecord& record);
std::string SaveLine(const SaveRecord& record);
std::string ProfileLines(const ProfileRecord& record);
std::string ProgressText(const ProgressRecord& record);  // "evaluating 37% | 12s left"
std::string SampleLines(const SampleRecord& record, int64_t steps);
std::string ProgressLine(const ProgressRecord& record, int64_t steps);
std::string DurationText(double seconds);  // "42s", "3m07s", "2h05m"
std::string CountText(int64_t count);      // "812", "10.7K", "124.4M"

// Averages loss, gradient norm (finite values only) and time over the steps since the last Take. Rates are averaged
// over that time. All other values are the last step's.
class StepMean {
 public:
  void Add(const StepRecord& step);
  StepRecord Take();  // requires at least one Add

 private:
  StepRecord last_;
  double loss_ = 0, norm_ = 0, ms_ = 0, tokens_ = 0, mfu_ = 0;
  int64_t steps_ = 0, norms_ = 0;
};

// Decides when to show the progress of a long evaluation: after 5 seconds, and then every 5 seconds.
class EvalProgress {
 public:
  bool IsDue(const ProgressRecord& record);

 private:
  static constexpr double kPause = 5;
  double next_ = kPause, last_ = 0;
};

// Estimates the time left from the median of the latest steps, so that a slow first step or a pause has no effect.
class Progress {
 public:
  explicit Progress(int64_t steps) : steps_(steps) {}
  void Add(double ms);
  std::optional<double> SecondsLeft() const;

 private:
  int64_t steps_, done_ = 0;
  std::vector<double> latest_ms_;
};

}  // namespace weft
