// BenchJob: the input of every kind of weft bench, and the kinds. All ranks of the mesh run a kind together and get the
// same status. kInvalidArgument means that an argument does not fit, kResourceExhausted that a step does not fit into
// memory, and kAborted that a result was wrong.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "launcher/bench/bench_line.h"
#include "launcher/bench/bench_words.h"
#include "weft/dist/group/mesh.h"

namespace weft {

struct BenchJob {
  const BenchWords& words;
  const Config& config;  // resolved
  const Context& context;
  DeviceMesh& mesh;
  DeviceKind device;

  Runtime runtime() const { return RuntimeOf(context, mesh, device); }
  bool on_gpu() const { return device != DeviceKind::kCpu; }
  MeasureOptions measure() const { return {.seconds = words.seconds, .repeats = words.repeats}; }
  // Times the work that run(calls) issues to the device.
  CallTimes Time(BenchWork run) const;
  // Times several pieces of work in turns (MeasureInTurns).
  std::vector<CallTimes> TimeInTurns(std::span<const BenchWork> works) const;
  BenchPlace Place() const;
  void PrintHead() const;                   // on rank 0, unless the output is JSON
  void Print(const BenchLine& line) const;  // on rank 0
};

absl::Status RunCollectiveBench(const BenchJob& job);
absl::Status RunGemmBench(const BenchJob& job);
absl::Status RunSdpaBench(const BenchJob& job);
absl::Status RunEncoderBench(const BenchJob& job);
absl::Status RunStepBench(const BenchJob& job);
absl::Status RunDispatchBench(const BenchJob& job);
absl::Status RunCopyBench(const BenchJob& job);
absl::Status RunRatesBench(const BenchJob& job);

}  // namespace weft
