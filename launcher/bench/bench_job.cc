#include "launcher/bench/bench_job.h"

#include <cstdio>

#include "weft/core/host/host_name.h"
#include "weft/core/host/message.h"

namespace weft {

CallTimes BenchJob::Time(BenchWork run) const { return Measure(context.device(device), mesh.World(), measure(), run); }

std::vector<CallTimes> BenchJob::TimeInTurns(std::span<const BenchWork> works) const {
  return MeasureInTurns(context.device(device), mesh.World(), measure(), works);
}

BenchPlace BenchJob::Place() const {
  return {.device = Name(device),
          .device_name = on_gpu() ? context.device(device).name() : ProcessorName(),
          .host = HostName(),
          .ranks = context.world_size(),
          .threads = context.threads()};
}

void BenchJob::PrintHead() const {
  if (context.rank() == 0 && !words.json) PrintStdout("{}", BenchHead(Place()));
}

// Flushes the line, because the next case may take long.
void BenchJob::Print(const BenchLine& line) const {
  if (context.rank() != 0) return;
  PrintStdout("{}", words.json ? BenchJson(line, Place()) + "\n" : BenchRow(line));
  std::fflush(stdout);
}

}  // namespace weft
