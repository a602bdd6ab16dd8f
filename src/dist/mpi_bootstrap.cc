// The bootstrap through MPI. MPI carries addresses and ids at start-up, never tensors.
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "dist/bootstrap.h"
#include "dist/hang_guard.h"
#include "dist/pieces.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kTag = 0x5745;               // of all messages here
constexpr milliseconds kFinalize{60'000};  // the ranks have met just before
constexpr milliseconds kRootFirst{1000};   // by which rank 0's deadline comes first: it knows who is missing

void Check(int rc) { WEFT_CHECK(rc == MPI_SUCCESS, fmt::format("bootstrap: MPI error {}", rc)); }

// Before MPI knows it.
std::string RankInEnvironment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const char* rank = std::getenv(name)) return fmt::format("rank {}", rank);
  return "a rank";
}

// False at the deadline. MPI's own waiting has none and keeps a core busy; this leaves the core to ranks that share it.
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

// A message from `source` or from MPI_ANY_SOURCE; its rank is put into `from`. False at the deadline.
bool Receive(int source, Clock::time_point deadline, std::string* bytes, int* from) {
  MPI_Status status;
  int there = 0, count = 0;
  auto look = [&] {
    Check(MPI_Iprobe(source, kTag, MPI_COMM_WORLD, &there, &status));
    return there != 0;
  };
  if (!Await(deadline, look)) return false;
  Check(MPI_Get_count(&status, MPI_BYTE, &count));
  bytes->resize(size_t(count));
  *from = status.MPI_SOURCE;
  Check(MPI_Recv(bytes->data(), count, MPI_BYTE, *from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  return true;
}

// To the ranks [first, last). False at the deadline: the bytes, which MPI may still read, are then left to the end of
// the process.
bool Send(const std::string& bytes, int first, int last, Clock::time_point deadline) {
  auto kept = std::make_unique<std::string>(bytes);
  std::vector<MPI_Request> requests(static_cast<size_t>(last - first), MPI_REQUEST_NULL);
  for (int r = first; r < last; r++)
    Check(MPI_Isend(kept->data(), int(kept->size()), MPI_BYTE, r, kTag, MPI_COMM_WORLD, &requests[size_t(r - first)]));
  int sent = 0;
  auto look = [&] {
    Check(MPI_Testall(int(requests.size()), requests.data(), &sent, MPI_STATUSES_IGNORE));
    return sent != 0;
  };
  if (Await(deadline, look)) return true;
  static_cast<void>(kept.release());
  return false;
}

class MpiBootstrap final : public Bootstrap {
 public:
  MpiBootstrap(int* argc, char*** argv, milliseconds timeout) : Bootstrap(timeout) {
    int initialized = 0, provided = MPI_THREAD_MULTIPLE;
    MPI_Initialized(&initialized);
    owns_ = !initialized;
    if (owns_) {
      HangGuard guard(RankInEnvironment(), "MPI_Init", timeout);
      MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    }
    WEFT_CHECK(provided == MPI_THREAD_MULTIPLE, "bootstrap: this MPI has no MPI_THREAD_MULTIPLE");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
    FindHosts();
  }

  ~MpiBootstrap() override {
    // MPI_Finalize waits for the others, who may wait for what this rank will no longer do: leave without it, and
    // mpirun ends the job.
    if (!owns_ || std::uncaught_exceptions() != exceptions_) return;
    HangGuard guard(fmt::format("rank {}", rank_), "MPI_Finalize", kFinalize);
    MPI_Finalize();
  }

  [[noreturn]] void Abort(int code) override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  // To rank 0 and back: MPI's own gather would not say who has not come.
  std::vector<std::string> Exchange(std::string_view bytes, Clock::time_point deadline) override {
    return rank_ == 0 ? Collect(bytes, deadline) : Contribute(bytes, deadline);
  }

  std::vector<std::string> Collect(std::string_view bytes, Clock::time_point deadline) {
    std::vector<std::string> pieces(static_cast<size_t>(world_size_));
    std::vector<bool> come(static_cast<size_t>(world_size_));
    pieces[0] = bytes;
    come[0] = true;
    for (int missing = world_size_ - 1; missing > 0; missing--) {
      std::string piece;
      int from = 0;
      if (!Receive(MPI_ANY_SOURCE, deadline, &piece, &from)) FailMissing(come);
      pieces[size_t(from)] = std::move(piece);
      come[size_t(from)] = true;
    }
    WEFT_CHECK(Send(JoinPieces(pieces), 1, world_size_, deadline + kRootFirst),
               "bootstrap: not all ranks have taken what rank 0 sent");
    return pieces;
  }

  std::vector<std::string> Contribute(std::string_view bytes, Clock::time_point deadline) {
    std::string all;
    int from = 0;
    deadline += kRootFirst;
    bool met = Send(std::string(bytes), 0, 1, deadline) && Receive(0, deadline, &all, &from);
    WEFT_CHECK(met, fmt::format("bootstrap: rank 0 has not answered rank {} in exchange {}", rank_, exchanges()));
    return SplitPieces(all);
  }

  [[noreturn]] void FailMissing(const std::vector<bool>& come) {
    std::string missing;
    for (int r = 0; r < world_size_; r++)
      if (!come[size_t(r)]) missing += fmt::format(" {}", r);
    Fail(fmt::format("bootstrap: these of the {} ranks have not come to exchange {} in time:{}", world_size_,
                     exchanges(), missing));
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
