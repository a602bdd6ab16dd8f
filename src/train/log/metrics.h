// Metrics: what a run reports, as JSON lines for programs and as lines for people. RunLog (parallel/log) writes them.
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

namespace weft {

struct StartRecord {
  std::string version, config;  // the merged config, as YAML
  int64_t ranks = 1;
  MeshShape mesh;  // logged by the names of its axes: "dp" and "tp", and others where there are any
  int64_t parameters = 0, steps = 0, tokens_per_step = 0, train_tokens = 0, val_tokens = 0;
  std::optional<int64_t> resumed_step;  // that the run goes on after
  std::string kernels;                  // of KernelChoices; "": there are no choices
  std::string device;                   // "cpu"
  int64_t data_bytes = 0;               // of the tokens that each rank holds in memory; 0: they stay in their files
  int64_t unix_time = 0;                // seconds
  // For people alone.
  std::string resumed_from, init;  // the checkpoint, and where other first weights are from; "": none
  int64_t global_nodes = 0, local_nodes = 0, arena_bytes = 0;
};

struct StepRecord {
  int64_t step = 0;  // from 1
  double loss = 0;   // nats per token, over the global batch
  double grad_norm = 0, lr = 0, ms = 0, tokens_per_s = 0;
  std::optional<double> mfu;          // of the device's peak, where that is known
  std::optional<int64_t> peak_bytes;  // of memory, of the rank that uses most
  std::optional<double> loss_scale;   // of this step, in f16 alone,
  int64_t skipped = 0;                //   and the updates that gradients which are not finite have cost so far
};

struct EvalRecord {
  int64_t step = 0;
  double val_loss = 0;           // nats per token
  int64_t tokens = 0;            // targets counted
  std::optional<int64_t> bytes;  // of the text that they stand for, where it is known
  double ms = 0;
};

struct EndRecord {
  int64_t step = 0;
  double seconds = 0;
  std::optional<double> loss, val_loss;
};
struct StopRecord {
  int64_t step = 0;    // the last that was done
  std::string reason;  // "SIGTERM"
  std::string advice;  // how to go on, for people alone
};
struct SaveRecord {
  int64_t step = 0;    // whose state it is
  std::string folder;  // the checkpoint, whole by now
  double seconds = 0;  // that writing it took, beside the training
};
// For people only: how far an evaluation is.
struct ProgressRecord {
  int64_t step = 0;           // that it follows
  int64_t done = 0, all = 0;  // windows
  double seconds = 0;         // since it began
};
// For people only: what the model writes.
struct SampleRecord {
  int64_t step = 0;
  std::string text;
};
// What a note on stderr has said (core/host/notice.h).
struct NoteRecord {
  std::string text;
};
struct ProfileRecord {
  int64_t first_step = 0, step = 0;  // the first and the last of the steps that were timed
  std::string path;                  // of the trace
  double step_ms = 0;                // mean over steps and ranks
  // Shares of that time. Waiting is a part of the collectives'.
  double kernels = 0, collectives = 0, waiting = 0, neither = 0;
  std::string table, note;  // for people only: lines of the longest kernels and collectives; "": no note
};
using LogRecord = std::variant<StartRecord, StepRecord, EvalRecord, EndRecord, StopRecord, SaveRecord, ProgressRecord,
                               SampleRecord, NoteRecord, ProfileRecord>;

// One JSON object without a newline. Doubles read back exactly; what is unknown or not finite is null.
std::string JsonLine(const StartRecord& record);
std::string JsonLine(const StepRecord& record);
std::string JsonLine(const EvalRecord& record);
std::string JsonLine(const EndRecord& record);
std::string JsonLine(const StopRecord& record);
std::string JsonLine(const SaveRecord& record);
std::string JsonLine(const NoteRecord& record);
std::string JsonLine(const ProfileRecord& record);
// "": no log has these.
std::string JsonLine(const ProgressRecord& record);
std::string JsonLine(const SampleRecord& record);

// kAborted when a number that training or its judgement rests on is not finite: with the next update it reaches every
// parameter, so a run ends where it shows. An evaluation of no tokens has no loss. A step whose loss scale was above
// `least_scale` may have gradients that are not finite: it updated nothing.
absl::Status CheckFinite(const StepRecord& record, double least_scale = 0);
absl::Status CheckFinite(const EvalRecord& record);

// Nats per token to bits per byte of text, where there is one.
std::optional<double> BitsPerByte(const EvalRecord& record);

// The lines for people. `seconds_left` is unknown until a step has been timed.
std::string StartLines(const StartRecord& record);
// What does not fit into `width` columns is left out, the least important numbers first; step and loss always stay.
std::string StepLine(const StepRecord& record, int64_t steps, std::optional<double> seconds_left,
                     size_t width = std::numeric_limits<size_t>::max());
std::string EvalLine(const EvalRecord& record, int64_t steps);
// Of a run that went on after start_step.
std::string EndLine(const EndRecord& record, int64_t start_step);
std::string StopLine(const StopRecord& record);
std::string SaveLine(const SaveRecord& record);
std::string ProfileLines(const ProfileRecord& record);
std::string ProgressText(const ProgressRecord& record);  // "evaluating 37% | 12s left"
std::string SampleLines(const SampleRecord& record, int64_t steps);
std::string ProgressLine(const ProgressRecord& record, int64_t steps);
std::string DurationText(double seconds);  // "42s", "3m07s", "2h05m"
std::string CountText(int64_t count);      // "812", "10.7K", "124.4M"

// The mean of the steps since the last Take: of loss, gradient norm (those that are finite) and time. Rates are over
// the whole time; all else is the last step's.
class StepMean {
 public:
  void Add(const StepRecord& step);
  StepRecord Take();  // after at least one Add

 private:
  StepRecord last_;
  double loss_ = 0, norm_ = 0, ms_ = 0, tokens_ = 0, mfu_ = 0;
  int64_t steps_ = 0, norms_ = 0;
};

// Shows an evaluation that takes long: after 5 seconds, and every 5 seconds from then on.
class EvalProgress {
 public:
  bool IsDue(const ProgressRecord& record);

 private:
  static constexpr double kPause = 5;
  double next_ = kPause, last_ = 0;
};

// Time left from the median of the latest steps, so that neither a slow first step nor a pause misleads.
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
