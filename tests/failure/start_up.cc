// start_up PLACE ACTION RANK, run under mpirun by start_up_test.sh: one rank fails while no collective runs. The others
// must end the job and name it. dist.timeout_s is 2, or 60 if a rank dies while the ranks connect.
// - PLACE: load (before the ranks first agree), mesh (before they connect), connect (while they connect; kill or hang
//   only), call (before the first collective), end (after the last one)
// - ACTION: stop, kill, or sleep (the rank lives and answers, but does not arrive)
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "launcher/rank.h"
#include "launcher/train_job.h"

namespace weft {
namespace {

// Makes the odd rank's fault at its place, and prints when it happened, for the test.
void Pass(const Bootstrap& bootstrap, const Words& words, const std::string& place) {
  if (words[0] != place || words[2] != std::to_string(bootstrap.rank())) return;
  auto now = std::chrono::system_clock::now().time_since_epoch();
  fmt::print("fault: rank {} pid {} at {}\n", bootstrap.rank(), getpid(), std::chrono::nanoseconds(now).count());
  std::fflush(stdout);
  if (place == "connect") setenv("WEFT_FAULT", fmt::format("connect:{}:2", words[1]).c_str(), 1);
  if (place == "connect") return;
  if (words[1] == "stop") raise(SIGSTOP);
  if (words[1] == "kill") raise(SIGKILL);
  sleep(words[1] == "sleep" ? 60 : 0);
}

int Run(RankJob& job, const Words& words) {
  Bootstrap& bootstrap = job.bootstrap;
  bootstrap.set_timeout(std::chrono::milliseconds(2000));
  Pass(bootstrap, words, "load");
  absl::StatusOr<TrainJob> train = LoadTrainJob(
      {"configs/gpt2-tiny.yaml", "data.train=README.md",
       words[0] == "connect" && words[1] == "kill" ? "dist.timeout_s=60" : "dist.timeout_s=2", "mesh.dp=-1"},
      bootstrap.world_size());
  if (!AllOk(bootstrap, train.status())) return 2;
  Pass(bootstrap, words, "mesh");
  Pass(bootstrap, words, "connect");
  std::optional<RankMesh> rank = MakeRankMesh(job, train->config);
  if (!rank) return 2;
  Pass(bootstrap, words, "call");
  float x[10] = {};
  rank->mesh->Group("dp").AllReduce(x, x, 10, DType::kF32);
  rank->mesh->World().AllReduce(x, x, 10, DType::kF32);
  Pass(bootstrap, words, "end");
  return ExitCode(job, absl::OkStatus());
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::RunOnRank(weft::Words(argv + 1, argv + argc), "", weft::Run, weft::RankControl::kStop);
}
