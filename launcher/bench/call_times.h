// CallTimes: how long a call takes, measured over many repeats. Measure times it by the clock of the device after
// warm-up, on the caller's data.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/core/base/device_runtime.h"
#include "weft/dist/group/process_group.h"

namespace weft {

struct CallTimes {
  std::vector<double> ms;   // the time of one call, one number per repeat, ascending; not empty
  int64_t calls = 1;        // per repeat; the time of a repeat was divided by it
  double processor_ms = 0;  // the mean processor time of one call, over all threads of this process

  double Min() const { return ms.front(); }
  double Median() const;
  double P90() const;  // the smallest time that 90 % of the repeats do not exceed
  // Returns the times of a part of a call, if each call consists of `parts` equal parts.
  CallTimes PartOf(int64_t parts) const;
};

struct MeasureOptions {
  double seconds = 0.2;  // the approximate time of all repeats together
  int64_t repeats = 0;   // 0: as many as fit into `seconds`, from 5 to 1000
};

// Issues `calls` calls to the device, and need not wait for them.
using BenchWork = absl::FunctionRef<void(int64_t calls)>;

// Times run(calls).
// - A repeat has enough calls to take at least 0.2 ms, so that reading the clock costs little.
// - All ranks of `world`, a group for CPU tensors, measure together. The time of a repeat is that of the slowest rank.
// - At least 4 calls precede the first repeat, because the first calls connect ranks, choose algorithms and record.
CallTimes Measure(DeviceRuntime& device, ProcessGroup& world, const MeasureOptions& options, BenchWork run);

// Times several pieces of work that are to be compared, one repeat of each in turn: A B B A A B B A. So work of others
// on the host, and the heat of a device, meet them alike. Each is timed as Measure does. All have the same number of
// repeats, which take options.seconds for the slowest one. Returns their times in the order of `works`.
std::vector<CallTimes> MeasureInTurns(DeviceRuntime& device, ProcessGroup& world, const MeasureOptions& options,
                                      std::span<const BenchWork> works);

}  // namespace weft
