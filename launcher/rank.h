// The steps that all commands on ranks share: start, agree with the other ranks, make context and mesh, end.
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
#include "weft/dist/start/mpirun.h"
#include "weft/train/config/config.h"
#include "weft/train/log/start_times.h"

namespace weft {

// The services that a command gets on each rank. The gate stays open unless the command stops on signals.
struct RankJob {
  Bootstrap& bootstrap;
  FailureWatch& failures;
  StopGate& stop;
  Notices& notices;   // only rank 0 prints them
  StartTimes& times;  // of this process, which has met the other ranks
};
// Runs a command on this rank and returns the exit code.
// - If the arguments ask for help, prints `help`.
// - The argument ranks=N starts N ranks. If a launcher has started this process, it must have started N ranks.
// - An exception in `run` ends the job with exit code 1.
// - With kStop, SIGTERM, SIGINT and SIGUSR1 close the gate, which the command must ask.
// - Otherwise, these signals end the rank as they end any process, and that ends the job. SIGTERM is delayed, so
//   that the rank can still report which rank died first (TermDelay).
// - With kConverse and ranks=N, rank 0 gets stdin, and SIGINT as SIGUSR1.
int RunOnRank(const Words& words, const char* help, int (*run)(RankJob& job, const Words& words),
              RankControl control = RankControl::kEnd);

// The argument ranks=N, and the error if it is invalid.
struct RankRequest {
  int64_t ranks = 0;  // 0: not given
  absl::Status options;
};
RankRequest TakeRanks(Words& words);
// Starts the requested ranks with mpirun and returns the exit code. Returns nullopt if this process is itself to run as
// a rank, because a launcher started it or because it is the only rank.
std::optional<int> StartRanks(const RankRequest& request, RankControl control);
// Returns an error if the request is invalid, or asks for another number of ranks than the launcher has `started`.
absl::Status CheckRanks(const RankRequest& request, int started);

// Returns whether the status of every rank is OK. Collective. If not, rank 0 prints the first error before any rank
// exits, because an exit may end the job. It adds the rank unless all ranks have the same error. For example, a file
// may be missing on one host only.
bool AllOk(Bootstrap& bootstrap, const absl::Status& mine);
// Returns the exit code for the result of a command. kInvalidArgument gives 2, kAborted and kResourceExhausted give 1;
// all ranks must have equal ones of these, and rank 0 prints the message. Any other error is of this rank only and ends
// the job. The ranks wait for each other here, so call it before the mesh is destroyed.
int ExitCode(RankJob& job, const absl::Status& status);

Ranks RanksOf(Bootstrap& bootstrap);  // `bootstrap` must outlive the result

// Makes the context, device and mesh of this rank by the resolved config. Collective. If a rank lacks the device, rank
// 0 prints the error and all ranks return nullopt.
struct RankMesh {
  std::unique_ptr<Context> context;
  DeviceKind device;
  std::unique_ptr<GroupFactory> groups;
  std::unique_ptr<DeviceMesh> mesh;
};
std::optional<RankMesh> MakeRankMesh(RankJob& job, const Config& config);

}  // namespace weft
