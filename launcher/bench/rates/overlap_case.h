// OverlapCase: the largest product of a step, by itself and while its largest collective runs. Shows what part of a
// collective's time kernels lose meanwhile: it takes multiprocessors, memory bandwidth and, of a GPU at its power
// limit, clock.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "launcher/bench/rates/step_parts.h"

namespace weft {

class OverlapCase {
 public:
  // `ms` has the time of each part. Returns nullopt if no plan has both a product and a collective that can be
  // repeated. The parts must outlive the case.
  static std::optional<OverlapCase> Of(const StepParts& parts, const std::map<std::string, double>& ms);
  // Prints a line with `lost_share`, from 0 to 1. All ranks run it together, in memory with `windows`.
  void Run(const BenchJob& job, std::span<const WindowUse> windows) const;

 private:
  OverlapCase(const StepPart& product, const StepPart& collective, double product_ms, double collective_ms);
  // Returns the program with or without the collectives.
  BatchProgram ProgramOf(const Runtime& runtime, bool collectives) const;
  void Print(const BenchJob& job, const CallTimes& without, const CallTimes& with) const;

  const StepPart &product_, &collective_;
  double collective_ms_;
  int64_t products_;  // per collective
};

}  // namespace weft
