// Bootstrap: how a process learns its rank and reaches the others before there are groups.
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
  // Looks at the environment, in this order:
  //   OMPI_COMM_WORLD_SIZE, PMIX_RANK or PMI_RANK    MPI: started by mpirun, or by srun with MPI support
  //   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT     as torchrun sets them
  //   SLURM_PROCID, SLURM_NTASKS, SLURM_STEP_ID      srun; MASTER_ADDR and MASTER_PORT if set, else the first host of
  //                                                  SLURM_STEP_NODELIST or SLURM_JOB_NODELIST, and a port that
  //                                                  follows from SLURM_JOB_ID and SLURM_STEP_ID
  //   none of these                                  a world of one; MPI is not touched
  // Without MPI the ranks prove a secret to each other, which job_secret.h says where to find.
  // Throws Error when variables are missing, wrong or contradict, or when not all ranks come within the timeout.
  // MPI sees the arguments, if given, and may take out its own. `words`: what all ranks of this job share, arguments
  // for example, and another job mostly has otherwise; without MPI a rank with others is refused.
  static std::unique_ptr<Bootstrap> FromEnvironment(
      int* argc = nullptr, char*** argv = nullptr,
      std::chrono::milliseconds timeout = std::chrono::milliseconds{300'000}, const std::string& words = "");
  // Leaves MPI in order, with the other ranks; when an exception unwinds, without them: then print it and call Abort
  // before this is destroyed, or just end the process.
  virtual ~Bootstrap() = default;
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  int local_rank() const { return local_rank_; }  // among the ranks of this host
  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }
  PeerNetwork& network() { return *network_; }  // by which the ranks reach each other from now on

  // The bytes of all ranks, in order. These two are called by all ranks alike, from one thread; where a rank is gone,
  // or late by more than the timeout, they call the failure handler, or throw Error where there is none.
  std::vector<std::string> AllGather(std::string_view bytes);
  void Barrier() { AllGather(""); }
  // How long such a call waits from now on; at first as long as FromEnvironment.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  void set_failure_handler(std::function<void(const std::string& error)> handler) { failed_ = std::move(handler); }
  // How many such calls this rank has begun. From any thread.
  int64_t exchanges() const { return exchanges_; }
  // Ends this process at once and the job as far as it can. Flushes stdout and stderr.
  [[noreturn]] virtual void Abort(int code) = 0;
  // The same where a rank is out of reach: the launcher may have to notice first that its host is lost.
  virtual void AbortWithLoss(int code) { Abort(code); }
  // The same where another rank is known to abort the job, which may end this process meanwhile.
  virtual void Leave(int code) { Abort(code); }

 protected:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kRootFirst{1000};  // by which rank 0, who knows who is missing, is earlier
  explicit Bootstrap(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  // AllGather until a deadline. Throws Error.
  virtual std::vector<std::string> Exchange(std::string_view bytes, Clock::time_point deadline) = 0;
  // Fills in local_rank_ and local_size_, and opens the network. `secret`: what strangers do not know; none where they
  // do not see what is exchanged.
  void Meet(const Key& secret = {});
  virtual void Adopt(PeerNetwork&) {}  // before the network starts

  int rank_ = 0, world_size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::string host_;

 private:
  std::unique_ptr<PeerNetwork> network_;
  std::chrono::milliseconds timeout_;
  std::function<void(const std::string&)> failed_;
  std::atomic<int64_t> exchanges_{0};
};

// Whether all ranks run on one host.
inline bool IsOneHost(const Bootstrap& bootstrap) { return bootstrap.local_size() == bootstrap.world_size(); }

// The MPI library that this process runs with, "Open MPI v4.1.4". MPI needs not be started.
std::string MpiVersion();
// Gloo's version, and where its groups would listen here, "0.5.0, sockets on 127.0.0.1": on the interface
// WEFT_INTERFACE if that is set, else on the loopback. Throws Error when they cannot.
std::string TryGloo();

// Each kind, for tests and for programs that know what they want.
std::unique_ptr<Bootstrap> MakeMpiBootstrap(int* argc, char*** argv, std::chrono::milliseconds timeout);
std::unique_ptr<Bootstrap> MakeTcpBootstrap(int rank, int world_size, const std::string& host, int port,
                                            std::chrono::milliseconds timeout, const std::string& words = "");
std::unique_ptr<Bootstrap> MakeSoloBootstrap();

}  // namespace weft
