// What collectives between processes cost: mpirun -np N collective_bench [SECONDS [BYTES...]]. One line per collective
// and size: its name, bytes, the least and the median time of a call, and rank 0's mean processor time for it with a
// barrier, in us. To compare two builds, run them in turns.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/standard/group_maker.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// Of all threads of this process, in us.
double ProcessorTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto us = [](const timeval& t) { return double(t.tv_sec) * 1e6 + double(t.tv_usec); };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

// All ranks agree on the number of calls: rank 0's first ones tell how long one takes.
void Time(ProcessGroup& group, const char* name, int64_t bytes, double seconds, const std::function<void()>& call) {
  std::vector<double> times;
  int64_t calls = 20;
  double processor = 0;
  for (int64_t i = -3; i < calls; i++) {
    group.Barrier();
    Clock::time_point begin = Clock::now();
    call();
    double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    if (i >= 0) times.push_back(us);
    if (i == 0) {
      processor = ProcessorTime();
      calls = std::clamp<int64_t>(int64_t(seconds * 1e6 / us), 20, 20'000);
      group.Broadcast(&calls, 1, DType::kI64, 0);
    }
  }
  processor = (ProcessorTime() - processor) / double(calls - 1);
  std::sort(times.begin(), times.end());
  if (group.rank() == 0)
    fmt::print("{} {} {:.1f} {:.1f} {:.1f}\n", name, bytes, times.front(), times[times.size() / 2], processor);
}

void Run(double seconds, const std::vector<int64_t>& sizes) {
  auto bootstrap = Bootstrap::FromEnvironment();
  auto groups = MakeGroupFactory(*bootstrap);
  Context context(bootstrap->rank(), bootstrap->world_size());
  DeviceMesh mesh(context, *groups, {{"x"}, {bootstrap->world_size()}});
  ProcessGroup& group = mesh.World();
  Time(group, "barrier", 0, seconds, [&] { group.Barrier(); });
  for (int64_t bytes : sizes) {
    std::vector<float> x(size_t(bytes / 4), 1.0f), y(x.size());
    int64_t n = bytes / 4;
    Time(group, "all_reduce", bytes, seconds, [&] { group.AllReduce(x.data(), y.data(), n, DType::kF32); });
    Time(group, "shift", bytes, seconds, [&] { group.Shift(x.data(), y.data(), n, DType::kF32, 1); });
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  std::vector<int64_t> sizes;
  for (int i = 2; i < argc; i++) sizes.push_back(std::atoll(argv[i]));
  if (sizes.empty()) sizes = {4, 1 << 10, 8 << 10, 16 << 10, 64 << 10, 128 << 10, 1 << 20, 8 << 20, 64 << 20};
  weft::Run(argc > 1 ? std::atof(argv[1]) : 0.2, sizes);
  return 0;
}
