// The bootstrap over MPI. MPI carries addresses and ids at start-up, never tensors.
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>

#include "weft/core/base/error.h"
#include "weft/dist/net/descriptor_limit.h"
#include "weft/dist/net/rank_list.h"
#include "weft/dist/signals/hang_guard.h"
#include "weft/dist/start/bootstrap.h"
#include "weft/dist/start/launched.h"
#include "weft/dist/start/open_mpi.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kTag = 0x5745;                    // tag of all messages of this file
constexpr milliseconds kInit{1'800'000};        // ranks of a large job start minutes apart
constexpr milliseconds kFinalize{60'000};       // the ranks have met just before
constexpr milliseconds kAborted{3'000};         // mpirun kills all ranks a second after one of them aborts
constexpr milliseconds kMaxLossNotice{60'000};  // the job does not wait longer
constexpr milliseconds kNoticed{5'000};         // the daemons end their ranks

void Check(int rc) { WEFT_CHECK(rc == MPI_SUCCESS, fmt::format("bootstrap: MPI error {}", rc)); }

// The rank before MPI is initialized.
std::string RankInEnvironment() {
  const Launch* launch = FindLaunch();
  const char* rank = launch && launch->meeting == Launch::kMpi ? std::getenv(launch->rank) : nullptr;
  return rank ? fmt::format("rank {}", rank) : "a rank";
}

// Returns false at the deadline. MPI's own waits have no deadline and keep a core busy. This loop leaves the core to
// ranks that share it.
template <class Ready>
bool Await(Clock::time_point deadline, const Ready& ready) {
  constexpr int kYields = 100;
  for (int i = 0; !ready(); i++) {
    if (Clock::now() >= deadline) return false;
    if (i < kYields)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// Waits for an empty message from `source`, which may be MPI_ANY_SOURCE. Returns the sender, or -1 at the deadline.
int ReceiveToken(int source, Clock::time_point deadline) {
  MPI_Status status;
  int there = 0;
  auto look = [&] {
    Check(MPI_Iprobe(source, kTag, MPI_COMM_WORLD, &there, &status));
    return there != 0;
  };
  if (!Await(deadline, look)) return -1;
  Check(MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  return status.MPI_SOURCE;
}

// Sends an empty message to each rank in [first, last). Returns false at the deadline.
bool SendTokens(int first, int last, Clock::time_point deadline) {
  std::vector<MPI_Request> requests(static_cast<size_t>(last - first), MPI_REQUEST_NULL);
  for (int r = first; r < last; r++)
    Check(MPI_Isend(nullptr, 0, MPI_BYTE, r, kTag, MPI_COMM_WORLD, &requests[size_t(r - first)]));
  int sent = 0;
  auto look = [&] {
    Check(MPI_Testall(int(requests.size()), requests.data(), &sent, MPI_STATUSES_IGNORE));
    return sent != 0;
  };
  return Await(deadline, look);
}

// The buffers that MPI uses during a gather.
struct Gather {
  std::string mine, all;
  int size = 0;
  std::vector<int> sizes, offsets;  // [world size]
  MPI_Request request = MPI_REQUEST_NULL;

  bool Done(Clock::time_point deadline) {
    int done = 0;
    auto look = [&] {
      Check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      return done != 0;
    };
    return Await(deadline, look);
  }
  bool Run(Clock::time_point deadline) {
    Check(MPI_Iallgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD, &request));
    if (!Done(deadline)) return false;
    std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
    all.resize(size_t(offsets.back()) + size_t(sizes.back()));
    Check(MPI_Iallgatherv(mine.data(), size, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE,
                          MPI_COMM_WORLD, &request));
    return Done(deadline);
  }
};

class MpiBootstrap final : public Bootstrap {
 public:
  MpiBootstrap(int* argc, char*** argv, milliseconds timeout) : Bootstrap(timeout) {
    int initialized = 0, provided = MPI_THREAD_MULTIPLE;
    MPI_Initialized(&initialized);
    owns_ = !initialized;
    if (owns_) {
      ChooseTransports();
      HangGuard guard(RankInEnvironment(), "MPI_Init", kInit);
      MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    }
    WEFT_CHECK(provided == MPI_THREAD_MULTIPLE, "bootstrap: this MPI has no MPI_THREAD_MULTIPLE");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
    absl::Status reserved = ReserveDescriptors(DescriptorsOfNetwork(), world_size_);
    WEFT_CHECK(reserved.ok(), std::string(reserved.message()));
    Meet();
  }

  ~MpiBootstrap() override {
    // MPI_Finalize waits for the other ranks, which may wait for work that this rank will no longer do. So this rank
    // exits without it, and mpirun ends the job.
    if (!owns_ || std::uncaught_exceptions() != exceptions_) return;
    HangGuard guard(fmt::format("rank {}", rank_), "MPI_Finalize", kFinalize);
    MPI_Finalize();
  }

  [[noreturn]] void Abort(int code) override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }
  // If mpirun learns of an abort while a host is lost, it waits for that host's daemon until TCP gives up. That takes a
  // quarter of an hour, because a connection with unacknowledged data has no keepalives. So this rank waits until
  // mpirun has noticed the loss.
  void AbortWithLoss(int code) override {
    std::fflush(nullptr);
    std::this_thread::sleep_for(UntilLossIsNoticed());
    Abort(code);
  }
  // Open MPI's mpirun takes another second for each further abort while a rank is suspended.
  void Leave(int code) override {
    std::fflush(nullptr);
    std::this_thread::sleep_for(kAborted + UntilLossIsNoticed());
    Abort(code);
  }

 private:
  // The ranks first report to rank 0, which then knows the missing ones. MPI's gather moves the bytes, but does not
  // name missing ranks.
  std::vector<std::string> Exchange(std::string_view bytes, Clock::time_point deadline) override {
    rank_ == 0 ? AwaitAll(deadline) : AwaitRoot(deadline + kRootFirst);
    auto gather = std::make_unique<Gather>();
    gather->mine = bytes;
    gather->size = int(bytes.size());
    for (auto* list : {&gather->sizes, &gather->offsets}) list->resize(size_t(world_size_));
    if (!gather->Run(deadline + kRootFirst)) {
      static_cast<void>(gather.release());  // MPI may still use it
      Fail(fmt::format("bootstrap: exchange {} of all ranks was not complete in time", exchanges()));
    }
    std::vector<std::string> pieces;
    for (size_t r = 0; r < gather->sizes.size(); r++)
      pieces.push_back(gather->all.substr(size_t(gather->offsets[r]), size_t(gather->sizes[r])));
    return pieces;
  }

  milliseconds UntilLossIsNoticed() const {
    milliseconds notice = LossNotice();
    return local_size() == world_size() || notice > kMaxLossNotice ? milliseconds(0) : notice + kNoticed;
  }

  void AwaitAll(Clock::time_point deadline) {
    std::vector<bool> come(static_cast<size_t>(world_size_));
    for (int missing = world_size_ - 1; missing > 0; missing--) {
      int from = ReceiveToken(MPI_ANY_SOURCE, deadline);
      if (from < 0) FailMissing(come);
      come[size_t(from)] = true;
    }
    WEFT_CHECK(SendTokens(1, world_size_, deadline + kRootFirst),
               fmt::format("bootstrap: exchange {} of all ranks was not complete in time", exchanges()));
  }

  void AwaitRoot(Clock::time_point deadline) {
    bool met = SendTokens(0, 1, deadline) && ReceiveToken(0, deadline) == 0;
    WEFT_CHECK(met, fmt::format("bootstrap: exchange {} of all ranks was not complete in time", exchanges()));
  }

  [[noreturn]] void FailMissing(const std::vector<bool>& come) {
    std::vector<int> missing;
    for (int r = 1; r < world_size_; r++)
      if (!come[size_t(r)]) missing.push_back(r);
    Fail(fmt::format("bootstrap: these of the {} ranks have not come to exchange {} in time: {}", world_size_,
                     exchanges(), RankList(missing)));
  }

  bool owns_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

std::string MpiVersion() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  Check(MPI_Get_library_version(text, &length));
  std::string version(text, size_t(length));
  return version.substr(0, version.find_first_of(",\n"));
}

std::unique_ptr<Bootstrap> MakeMpiBootstrap(int* argc, char*** argv, milliseconds timeout) {
  return std::make_unique<MpiBootstrap>(argc, argv, timeout);
}

}  // namespace weft
