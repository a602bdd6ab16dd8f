// collective_fault FAULT RANK, run under mpirun by collective_fault_test.sh: one rank behaves differently from the
// others. The others must end the job with a line that names that rank.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "weft/dist/failure/failure_watch.h"
#include "weft/dist/group/standard/group_maker.h"
#include "weft/dist/signals/signal_catcher.h"

namespace weft {
namespace {

constexpr int kRounds = 20, kBadRound = 10;

// Prints when the fault happened, for the test.
void Tell(int rank) {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  fmt::print("fault: rank {} pid {} at {}\n", rank, getpid(), std::chrono::nanoseconds(now).count());
  std::fflush(stdout);
}

// Three calls per round. In the bad round the odd rank makes a different one.
void Round(DeviceMesh& mesh, const std::string& fault) {
  float x[1000] = {};
  double wide[1000] = {};
  ProcessGroup &dp = mesh.Group("dp"), &world = mesh.World();
  if (fault == "dtype")
    dp.AllReduce(wide, wide, 1000, DType::kF64);
  else if (fault == "shape")
    dp.AllReduce(x, x, 999, DType::kF32);
  else if (fault == "op")
    dp.AllReduce(x, x, 1000, DType::kF32, ReduceOp::kMax);
  else if (fault == "order")
    mesh.Group("tp").AllReduce(x, x, 10, DType::kF32), world.AllReduce(x, x, 100, DType::kF32);
  else if (fault != "skip")
    dp.AllReduce(x, x, 1000, DType::kF32);
  if (fault == "order") return dp.AllReduce(x, x, 1000, DType::kF32);
  mesh.Group("tp").AllReduce(x, x, 10, DType::kF32);
  world.AllReduce(x, x, 100, DType::kF32);
}

constexpr char kBusy = 'Z';  // a question that keeps the network thread of a rank busy for a second

// Shortly before the others miss the odd rank, keeps it from answering, as if its processor had other work.
std::jthread KeepBusy(const SideChannel& channel, int odd) {
  return std::jthread([&channel, odd] {
    std::this_thread::sleep_for(std::chrono::milliseconds(900));
    channel.Ask(odd, kBusy, "", std::chrono::milliseconds(50));
  });
}

void Run(Bootstrap& bootstrap, SideChannel& channel, FailureWatch& failures, const std::string& fault, int odd) {
  int n = bootstrap.world_size();
  Context context(bootstrap.rank(), n);
  auto groups = MakeGroupFactory(bootstrap);
  DeviceMesh mesh(context, *groups, {{"dp", "tp"}, {n == 4 ? 2 : n, n == 4 ? 2 : 1}});
  mesh.set_timeout(std::chrono::milliseconds(1000));
  failures.Watch(mesh);
  try {
    for (int i = 0; i < kRounds; i++) {
      bool bad = i == kBadRound && bootstrap.rank() == odd;
      if (bad) Tell(odd);
      if (bad && fault == "throw") Fail("the odd rank gives up");
      if (bad && (fault == "late" || fault == "busy")) std::this_thread::sleep_for(std::chrono::seconds(5));
      if (bad && fault == "kill") raise(SIGKILL);
      if (bad && (fault == "stop" || fault == "stop_unseen")) raise(SIGSTOP);
      // The neighbour of the stopped rank is not yet waiting for it when the other ranks time out.
      if (i == kBadRound && bootstrap.rank() == (odd ^ 1) && fault == "stop_unseen")
        std::this_thread::sleep_for(std::chrono::milliseconds(800));
      std::jthread asks;
      if (i == kBadRound && bootstrap.rank() == (odd ^ 1) && fault == "busy") asks = KeepBusy(channel, odd);
      Round(mesh, bad ? fault : "");
    }
  } catch (const std::exception& e) {
    failures.Fail(e.what());
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;
  SignalCatcher signals({SIGTERM});
  auto bootstrap = Bootstrap::FromEnvironment(&argc, &argv);
  SideChannel channel(*bootstrap);
  FailureWatch failures(channel, *bootstrap);
  channel.On(kBusy, [](std::string_view) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    return std::string();
  });
  channel.Open();
  Run(*bootstrap, channel, failures, argv[1], std::atoi(argv[2]));
  return 0;
}
