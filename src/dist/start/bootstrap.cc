#include "weft/dist/start/bootstrap.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "weft/core/base/error.h"
#include "weft/core/host/control_groups.h"
#include "weft/core/host/cores.h"
#include "weft/core/host/host_name.h"
#include "weft/dist/net/descriptor_limit.h"
#include "weft/dist/net/host_identity.h"
#include "weft/dist/net/network_interface.h"
#include "weft/dist/net/tcp_exchange.h"
#include "weft/dist/start/launched.h"
#include "weft/dist/start/slurm.h"

namespace weft {
namespace {

[[noreturn]] void EndProcess(int code) {
  std::fflush(nullptr);
  _exit(code);
}

class TcpBootstrap final : public Bootstrap {
 public:
  TcpBootstrap(int rank, int world_size, const std::string& host, int port, std::chrono::milliseconds timeout,
               const std::string& words)
      : Bootstrap(timeout), exchange_(rank, world_size, host, port, timeout, words) {
    rank_ = rank;
    world_size_ = world_size;
    Meet(exchange_.key());
  }
  [[noreturn]] void Abort(int code) override { EndProcess(code); }  // the other ranks see closed connections

 private:
  std::vector<std::string> Exchange(std::string_view bytes, Clock::time_point deadline) override {
    return exchange_.AllGather(bytes, rank_ == 0 ? deadline : deadline + kRootFirst);
  }
  void Adopt(PeerNetwork& network) override {
    if (rank_ == 0) network.Adopt(exchange_.TakeAcceptor(), exchange_.TakeLocalSecret());
  }
  TcpExchange exchange_;
};

class SoloBootstrap final : public Bootstrap {
 public:
  SoloBootstrap() : Bootstrap(std::chrono::milliseconds::zero()) { Meet(); }
  [[noreturn]] void Abort(int code) override { EndProcess(code); }

 private:
  std::vector<std::string> Exchange(std::string_view bytes, Clock::time_point) override { return {std::string(bytes)}; }
};

bool Has(const char* name) { return std::getenv(name) != nullptr; }

// Returns the variable as a number in [low, high]. Throws Error if it is missing or is no such number.
int64_t Number(const char* name, int64_t low, int64_t high) {
  const char* text = std::getenv(name);
  WEFT_CHECK(text,
             fmt::format("bootstrap: the environment variable {} is missing; set it, or start with mpirun", name));
  std::string_view view = text;
  int64_t value = 0;
  auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  WEFT_CHECK(error == std::errc() && end == view.data() + view.size() && value >= low && value <= high,
             fmt::format("bootstrap: {}=\"{}\"; expected a number from {} to {}", name, text, low, high));
  return value;
}

struct Master {
  std::string host;
  int port;
};

Master MasterFromVariables() {
  WEFT_CHECK(Has("MASTER_ADDR"), "bootstrap: MASTER_ADDR is missing; export the address of rank 0's host");
  return {std::getenv("MASTER_ADDR"), int(Number("MASTER_PORT", 1, 65535))};
}

std::string SlurmHost() {
  if (const char* host = std::getenv("MASTER_ADDR")) return host;
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    const char* list = std::getenv(name);
    if (!list) continue;
    try {
      return FirstSlurmHost(list);
    } catch (const Error& e) {
      Fail(fmt::format("bootstrap: {}: {}; export MASTER_ADDR, the address of rank 0's host", name, e.what()));
    }
  }
  Fail(
      "bootstrap: no SLURM_STEP_NODELIST or SLURM_JOB_NODELIST says where rank 0 runs; export MASTER_ADDR, the address "
      "of its host");
}

Master MasterFromSlurm() {
  constexpr int64_t kMaxId = int64_t{1} << 40;
  std::string host = SlurmHost();
  if (Has("MASTER_PORT")) return {host, int(Number("MASTER_PORT", 1, 65535))};
  WEFT_CHECK(Has("SLURM_JOB_ID"),
             "bootstrap: no SLURM_JOB_ID to choose a port by; export MASTER_PORT, one that is free "
             "on rank 0's host, to all ranks");
  return {host, SlurmPort(Number("SLURM_JOB_ID", 0, kMaxId), Number("SLURM_STEP_ID", 0, kMaxId))};
}

std::unique_ptr<Bootstrap> FromVariables(const Launch& launch, std::chrono::milliseconds timeout,
                                         const std::string& words) {
  int size = int(Number(launch.size, 1, 1 << 20));
  int rank = int(Number(launch.rank, 0, size - 1));
  if (size == 1) return MakeSoloBootstrap();
  Master meet = launch.meeting == Launch::kSlurm ? MasterFromSlurm() : MasterFromVariables();
  absl::Status reserved = ReserveDescriptors(DescriptorsToMeet(rank, size) + DescriptorsOfNetwork(), size);
  WEFT_CHECK(reserved.ok(), std::string(reserved.message()));
  return MakeTcpBootstrap(rank, size, meet.host, meet.port, timeout, words);
}

}  // namespace

std::vector<std::string> Bootstrap::AllGather(std::string_view bytes) {
  exchanges_++;
  try {
    return Exchange(bytes, Clock::now() + timeout_);
  } catch (const Error& e) {
    if (failed_) failed_(e.what());
    throw;
  }
}

namespace {

// Parses "pid port address process_space host" of each rank.
std::vector<PeerNetwork::Peer> PeersOf(const std::vector<std::string>& texts) {
  std::vector<PeerNetwork::Peer> peers;
  for (const std::string& text : texts) {
    PeerNetwork::Peer& peer = peers.emplace_back();
    std::istringstream(text) >> peer.pid >> peer.port >> peer.address >> peer.process_space >> peer.host;
  }
  return peers;
}

}  // namespace

void Bootstrap::MeetHost(const std::vector<std::string>& all, const std::string& identity) {
  local_rank_ = 0;
  std::vector<CoreSet> host;  // of each rank of this host
  for (int r = 0; r < world_size_; r++) {
    WEFT_CHECK(all[size_t(r)].size() >= sizeof(Key), fmt::format("bootstrap: rank {} sent no random number", r));
    std::string_view theirs = std::string_view(all[size_t(r)]).substr(sizeof(Key));
    if (!theirs.starts_with(identity)) continue;
    if (r == rank_) local_rank_ = int(host.size());
    host.emplace_back(theirs.substr(identity.size()));
  }
  local_size_ = int(host.size());
  cores_ = ShareOfCores(host[size_t(local_rank_)], host, CoreQuota());
}

// Rank 0 contributes a random number, so that two jobs with the same secret have different keys.
void Bootstrap::Meet(const Key& secret) {
  host_ = HostName();
  Key mine = RandomKey();
  std::string identity = HostIdentity() + ' ';
  auto all = AllGather(std::string(BytesOf(mine)) + identity + AvailableCoreSet());
  MeetHost(all, identity);
  Key key = Hmac(secret, {"weft job", std::string_view(all[0]).substr(0, sizeof(Key))});
  std::string address = world_size_ == 1 ? "-" : ListenAddress(local_size_ != world_size_);
  network_ = std::make_unique<PeerNetwork>(rank_, world_size_, key, address);
  std::string about = fmt::format("{} {} {} {} {}", getpid(), network_->port(), address, ProcessSpace(), host_);
  std::vector<PeerNetwork::Peer> peers = PeersOf(AllGather(about));
  Adopt(*network_);
  std::string error;
  try {
    network_->Start(std::move(peers), Clock::now() + timeout_);
  } catch (const Error& e) {
    error = e.what();
  }
  for (const std::string& text : AllGather(error))  // otherwise the others would only see that this rank ends
    WEFT_CHECK(text.empty(), text);
}

std::unique_ptr<Bootstrap> Bootstrap::FromEnvironment(int* argc, char*** argv, std::chrono::milliseconds timeout,
                                                      const std::string& words) {
  const Launch* launch = FindLaunch();
  if (!launch) return MakeSoloBootstrap();
  if (launch->meeting == Launch::kMpi) return MakeMpiBootstrap(argc, argv, timeout);
  return FromVariables(*launch, timeout, words);
}

std::unique_ptr<Bootstrap> MakeTcpBootstrap(int rank, int world_size, const std::string& host, int port,
                                            std::chrono::milliseconds timeout, const std::string& words) {
  return std::make_unique<TcpBootstrap>(rank, world_size, host, port, timeout, words);
}

std::unique_ptr<Bootstrap> MakeSoloBootstrap() { return std::make_unique<SoloBootstrap>(); }

}  // namespace weft
