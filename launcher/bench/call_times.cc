#include "launcher/bench/call_times.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "weft/core/runtime/timeline.h"

namespace weft {
namespace {

constexpr double kRepeatMs = 0.2;
constexpr int64_t kWarmCalls = 3;  // an Executable makes its recording in the third run
constexpr int64_t kMinRepeats = 5, kMaxRepeats = 1000, kMaxCalls = int64_t(1) << 20;

double ProcessorMs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto ms = [](const timeval& t) { return double(t.tv_sec) * 1e3 + double(t.tv_usec) / 1e3; };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// Returns the milliseconds of each of `repeats` runs. Issues them without waiting, so that a device always has work.
std::vector<double> Repeat(DeviceRuntime& device, int64_t repeats, absl::FunctionRef<void()> run) {
  std::unique_ptr<Timeline> timeline = NewTimeline(device, size_t(repeats) + 1);
  timeline->Mark();
  for (int64_t i = 0; i < repeats; i++) {
    run();
    timeline->Mark();
  }
  std::vector<int64_t> at = timeline->Read();
  std::vector<double> ms;
  for (size_t i = 1; i < at.size(); i++) ms.push_back(double(at[i] - at[i - 1]) / 1e6);
  return ms;
}

void TakeSlowest(ProcessGroup& world, std::vector<double>& ms) {
  world.AllReduce(ms.data(), ms.data(), int64_t(ms.size()), DType::kF64, ReduceOp::kMax);
}

}  // namespace

double CallTimes::Median() const { return (ms[(ms.size() - 1) / 2] + ms[ms.size() / 2]) / 2; }

double CallTimes::P90() const { return ms[size_t(std::ceil(0.9 * double(ms.size()))) - 1]; }

CallTimes CallTimes::PartOf(int64_t parts) const {
  CallTimes part = *this;
  for (double& one : part.ms) one /= double(parts);
  part.processor_ms /= double(parts);
  part.calls *= parts;
  return part;
}

CallTimes Measure(DeviceRuntime& device, ProcessGroup& world, const MeasureOptions& options,
                  absl::FunctionRef<void(int64_t calls)> run) {
  run(kWarmCalls);
  device.Synchronize();
  int64_t calls = 1;  // per repeat
  auto repeat = [&](int64_t repeats) {
    std::vector<double> ms = Repeat(device, repeats, [&] { run(calls); });
    TakeSlowest(world, ms);  // so that all ranks choose the same `calls`, and begin the next repeats together
    return ms;
  };
  double ms = repeat(1)[0];
  while (ms < kRepeatMs && calls < kMaxCalls) {
    double wanted = double(calls) * 1.2 * kRepeatMs / std::max(ms, 1e-6);
    calls = std::clamp(int64_t(wanted), 2 * calls, 10 * calls);
    ms = repeat(1)[0];
  }
  int64_t repeats = std::clamp(int64_t(options.seconds * 1e3 / ms), kMinRepeats, kMaxRepeats);
  if (options.repeats > 0) repeats = options.repeats;
  CallTimes times;
  double processor = ProcessorMs();
  times.ms = repeat(repeats);
  times.processor_ms = (ProcessorMs() - processor) / double(repeats);
  std::sort(times.ms.begin(), times.ms.end());
  return times.PartOf(calls);
}

}  // namespace weft
