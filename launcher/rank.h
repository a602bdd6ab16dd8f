// What every command does that runs on ranks: start, agree with the others, make context and mesh, end.
#pragma once
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "launcher/command.h"
#include "weft/core/host/notice.h"
#include "weft/dist/failure/failure_watch.h"
#include "weft/dist/failure/stop_agreement.h"
#include "weft/dist/group/consensus.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/start/bootstrap.h"
#include "weft/train/config/config.h"

namespace weft {

// What a command's rank is given. The gate stays open unless signals stop the command.
struct RankJob {
  Bootstrap& bootstrap;
  FailureWatch& failures;
  StopGate& stop;
  Notices& notices;  // of this rank; rank 0 speaks
};
// Runs a command's rank: prints `help` where the words ask for it; what is thrown ends the job with exit code 1.
// ranks=N among the words starts N ranks, unless a launcher has started this process: then it must have started N.
// `stops`: SIGTERM, SIGINT and SIGUSR1 close the gate, which the command asks. Without it they end the rank, and with
// it the job, as they end any process: SIGTERM so late that it can still say which rank died before it (TermDelay).
int RunOnRank(const Words& words, const char* help, int (*run)(RankJob& job, const Words& words), bool stops = false);

// ranks=N of the command line, and what is wrong with it.
struct RankRequest {
  int64_t ranks = 0;  // 0: not given
  absl::Status options;
};
RankRequest TakeRanks(Words& words);
// Starts the ranks that are asked for, with mpirun, and returns the exit code. Nothing: this process is to run as the
// rank that a launcher made of it, or as the only one.
std::optional<int> StartRanks(const RankRequest& request, bool stops);
// Refuses another number of ranks than a launcher has started.
absl::Status CheckRanks(const RankRequest& request, int started);

// Whether all ranks are well. If not, rank 0 says why, once, and is heard before any rank's exit ends the job: the
// first failure, with its rank unless all failed alike (a file may be missing on one host).
bool AllOk(Bootstrap& bootstrap, const absl::Status& mine);
// Of a status that is the same on all ranks, whose message is then said; what concerns this rank alone ends the job.
// The ranks meet here: what they made together goes afterwards.
int ExitCode(RankJob& job, const absl::Status& status);

Ranks RanksOf(Bootstrap& bootstrap);  // which outlives them

// A rank's context, device and mesh, as a resolved config says; made by all ranks together. None: one of them has no
// such device, and that has been said.
struct RankMesh {
  std::unique_ptr<Context> context;
  DeviceKind device;
  std::unique_ptr<GroupFactory> groups;
  std::unique_ptr<DeviceMesh> mesh;
};
std::optional<RankMesh> MakeRankMesh(RankJob& job, const Config& config);

}  // namespace weft
