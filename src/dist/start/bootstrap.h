// Bootstrap: gives a process its rank and connects it to the other ranks before there are groups.
//
//   auto bootstrap = Bootstrap::FromEnvironment(&argc, &argv);
//   auto groups = MakeGroupFactory(*bootstrap);  // group/standard
//   Context context(bootstrap->rank(), bootstrap->world_size());
//   DeviceMesh mesh(context, *groups, shape);
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/dist/net/peer_network.h"

namespace weft {

class Bootstrap {
 public:
  // Chooses the way to meet the other ranks by the environment, in this order:
  //   OMPI_COMM_WORLD_SIZE, PMI_RANK or PMIX_RANK    MPI: started by mpirun, or by srun with MPI support
  //   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT     as torchrun sets them
  //   SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_ID      srun; MASTER_ADDR and MASTER_PORT if set, else the first host of
  //                                                  SLURM_STEP_NODELIST or SLURM_JOB_NODELIST, and a port that
  //                                                  follows from SLURM_JOB_ID and SLURM_STEP_ID
  //   none of these                                  a world of one, without MPI
  // Without MPI the ranks prove a secret to each other (job_secret.h). MPI receives the arguments, if given, and may
  // remove its own. `words` is text that all ranks of this job share, for example their arguments, and that other jobs
  // usually do not. Without MPI a rank with different words is refused. Throws Error if variables are missing, invalid
  // or contradictory, or if not all ranks come within the timeout.
  static std::unique_ptr<Bootstrap> FromEnvironment(
      int* argc = nullptr, char*** argv = nullptr,
      std::chrono::milliseconds timeout = std::chrono::milliseconds{300'000}, const std::string& words = "");
  // Finalizes MPI together with the other ranks. While an exception unwinds it does not, because the others may wait
  // for this rank. In that case print the exception and call Abort before this is destroyed, or end the process.
  virtual ~Bootstrap() = default;
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  int local_rank() const { return local_rank_; }  // among the ranks of this host
  int local_size() const { return local_size_; }
  // Returns for how many threads this rank has cores: its share of those that the ranks of its host may use.
  int cores() const { return cores_; }
  const std::string& host() const { return host_; }
  PeerNetwork& network() { return *network_; }  // connects the ranks after the start

  // Returns the bytes of all ranks in rank order. AllGather and Barrier are collective and must be called from one
  // thread. If a rank has ended, or is late by more than the timeout, they call the failure handler. If that returns or
  // there is none, they throw Error.
  std::vector<std::string> AllGather(std::string_view bytes);
  void Barrier() { AllGather(""); }
  // The limit for AllGather and Barrier. It begins as the timeout of FromEnvironment.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  void set_failure_handler(std::function<void(const std::string& error)> handler) { failed_ = std::move(handler); }
  // Returns how many AllGather and Barrier calls this rank has begun. Thread-safe.
  int64_t exchanges() const { return exchanges_; }
  // Ends this process at once, and the rest of the job as far as possible. Flushes stdout and stderr.
  [[noreturn]] virtual void Abort(int code) = 0;
  // Like Abort, for when a rank is unreachable. The launcher may first have to notice that a host is lost.
  virtual void AbortWithLoss(int code) { Abort(code); }
  // Like Abort, for when another rank is known to abort the job, which may end this process meanwhile.
  virtual void Leave(int code) { Abort(code); }

 protected:
  using Clock = std::chrono::steady_clock;
  // Rank 0 gives up this much earlier than the others, because it knows which ranks are missing.
  static constexpr std::chrono::milliseconds kRootFirst{1000};
  explicit Bootstrap(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  // AllGather with a deadline. Throws Error.
  virtual std::vector<std::string> Exchange(std::string_view bytes, Clock::time_point deadline) = 0;
  // Fills in local_rank_, local_size_ and cores_, and opens the network. `secret` is unknown to strangers. It may be
  // zero if strangers cannot see the exchange.
  void Meet(const Key& secret = {});
  virtual void Adopt(PeerNetwork&) {}  // called before the network starts

  int rank_ = 0, world_size_ = 1, local_rank_ = 0, local_size_ = 1, cores_ = 1;
  std::string host_;

 private:
  // Finds the ranks of this host. `all` has what the ranks sent: a random number, an identity and a set of cores.
  void MeetHost(const std::vector<std::string>& all, const std::string& identity);

  std::unique_ptr<PeerNetwork> network_;
  std::chrono::milliseconds timeout_;
  std::function<void(const std::string&)> failed_;
  std::atomic<int64_t> exchanges_{0};
};

// Returns whether all ranks run on one host.
inline bool IsOneHost(const Bootstrap& bootstrap) { return bootstrap.local_size() == bootstrap.world_size(); }

// Returns the MPI library of this process, "Open MPI v4.1.4". MPI need not be initialized.
std::string MpiVersion();
// Returns Gloo's version and the address on which its groups would listen here, "0.5.0, sockets on 127.0.0.1". The
// address is that of the interface WEFT_INTERFACE if that is set, else of the loopback. Throws Error if Gloo cannot be
// used.
std::string TryGloo();

// Each kind explicitly, for tests and special programs.
std::unique_ptr<Bootstrap> MakeMpiBootstrap(int* argc, char*** argv, std::chrono::milliseconds timeout);
std::unique_ptr<Bootstrap> MakeTcpBootstrap(int rank, int world_size, const std::string& host, int port,
                                            std::chrono::milliseconds timeout, const std::string& words = "");
std::unique_ptr<Bootstrap> MakeSoloBootstrap();

}  // namespace weft
