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

// The pieces of work that are timed together.
class Turns {
 public:
  Turns(DeviceRuntime& device, ProcessGroup& world, std::span<const BenchWork> works)
      : device_(device), world_(world), works_(works), calls_(works.size(), 1) {}

  // Warms each piece up, and finds how many calls take long enough. Returns the time of the slowest repeat.
  double Prepare() {
    double slowest = 0;
    for (size_t i = 0; i < works_.size(); i++) {
      works_[i](kWarmCalls);
      device_.Synchronize();
      double ms = One(i);
      while (ms < kRepeatMs && calls_[i] < kMaxCalls) {
        double wanted = double(calls_[i]) * 1.2 * kRepeatMs / std::max(ms, 1e-6);
        calls_[i] = std::clamp(int64_t(wanted), 2 * calls_[i], 10 * calls_[i]);
        ms = One(i);
      }
      slowest = std::max(slowest, ms);
    }
    return slowest;
  }

  // Runs `repeats` repeats of each piece, in the order A B B A. Issues them without waiting, so that a device always
  // has work.
  std::vector<CallTimes> Run(int64_t repeats) {
    std::vector<size_t> order;
    for (int64_t i = 0; i < repeats; i++)
      for (size_t k = 0; k < works_.size(); k++) order.push_back(i % 2 ? works_.size() - 1 - k : k);
    std::vector<CallTimes> times(works_.size());
    std::vector<double> ms = Issue(order, times);
    for (size_t i = 0; i < order.size(); i++) times[order[i]].ms.push_back(ms[i]);
    for (size_t i = 0; i < times.size(); i++) {
      times[i].processor_ms /= double(repeats);
      std::sort(times[i].ms.begin(), times[i].ms.end());
      times[i] = times[i].PartOf(calls_[i]);
    }
    return times;
  }

 private:
  double One(size_t i) {
    std::vector<CallTimes> ignored(works_.size());
    return Issue({i}, ignored)[0];
  }
  // Issues these pieces one after the other. Adds their processor times to `times`. Returns the milliseconds of each,
  // of the slowest rank, so that all ranks choose the same numbers of calls, and begin the next repeats together.
  std::vector<double> Issue(const std::vector<size_t>& order, std::vector<CallTimes>& times) {
    std::unique_ptr<Timeline> timeline = NewTimeline(device_, order.size() + 1);
    timeline->Mark();
    for (size_t i : order) {
      double processor = ProcessorMs();
      works_[i](calls_[i]);
      timeline->Mark();
      times[i].processor_ms += ProcessorMs() - processor;
    }
    std::vector<int64_t> at = timeline->Read();
    std::vector<double> ms;
    for (size_t i = 1; i < at.size(); i++) ms.push_back(double(at[i] - at[i - 1]) / 1e6);
    world_.AllReduce(ms.data(), ms.data(), int64_t(ms.size()), DType::kF64, ReduceOp::kMax);
    return ms;
  }

  DeviceRuntime& device_;
  ProcessGroup& world_;
  std::span<const BenchWork> works_;
  std::vector<int64_t> calls_;  // per repeat
};

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

CallTimes Measure(DeviceRuntime& device, ProcessGroup& world, const MeasureOptions& options, BenchWork run) {
  return MeasureInTurns(device, world, options, std::span(&run, 1))[0];
}

std::vector<CallTimes> MeasureInTurns(DeviceRuntime& device, ProcessGroup& world, const MeasureOptions& options,
                                      std::span<const BenchWork> works) {
  Turns turns(device, world, works);
  double ms = turns.Prepare();
  int64_t repeats = std::clamp(int64_t(options.seconds * 1e3 / ms), kMinRepeats, kMaxRepeats);
  return turns.Run(options.repeats > 0 ? options.repeats : repeats);
}

}  // namespace weft
