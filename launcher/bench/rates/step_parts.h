// StepParts: the distinct batches of a step's plans, and how long each takes by itself.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/bench/bench_job.h"
#include "launcher/bench/rates/batch_program.h"
#include "weft/core/predict/batch_work.h"

namespace weft {

// A distinct batch.
struct StepPart {
  const Plan* plan;
  size_t first, count;
  MeshShape mesh;
  BatchWork work;
  int64_t times;  // in a step
};
using StepParts = std::map<std::string, StepPart>;  // by the name of the work

// Adds the batches of a plan that runs `times` times in a step, with collectives in a kind of memory (batch_work.h).
// The plan must outlive the parts.
void AddParts(const Plan& plan, const Runtime& runtime, int64_t times, StepParts& parts,
              const std::string& memory = "");

// Times parts in turns. On a GPU a turn has each as often as a step has it, and may begin after seconds of load, so
// that the clocks are those that such a mixture of work leaves the GPU. All ranks time the same parts together.
class PartsBench {
 public:
  // Collectives are made in memory with `windows` (batch_program.h).
  PartsBench(const BenchJob& job, std::vector<StepPart> parts, std::vector<WindowUse> windows = {})
      : job_(job), parts_(std::move(parts)), windows_(std::move(windows)) {}
  // Returns the milliseconds of one run of each part, by name. Prints a line for each. `settles`: after the load. Parts
  // for which a rank's GPU lacks memory are left out, with a note that names them.
  std::map<std::string, double> Run(bool settles = true);

 private:
  double SettleSeconds() const;
  Runtime RuntimeOf(const StepPart& part) const;
  void Compile();
  void MakePrograms(absl::FunctionRef<int64_t(size_t)> copies);
  std::vector<const BatchProgram*> programs() const;
  void LeaveOutTooLarge();
  void Bind();
  std::vector<double> OnceEach() const;
  std::vector<CallTimes> Measure(std::span<const BenchWork> works, double seconds) const;
  void Print(const StepPart& part, CallTimes times) const;

  const BenchJob& job_;
  std::vector<StepPart> parts_;
  std::vector<WindowUse> windows_;
  std::vector<std::unique_ptr<BatchProgram>> programs_;
  std::optional<Operands> operands_;
  std::vector<std::unique_ptr<Executable>> made_;
  std::vector<int64_t> copies_;  // of the part in a program
  std::vector<int64_t> turns_;   // runs of the program in a turn
  double turn_ms_ = 1;           // about how long a turn takes
};

}  // namespace weft
