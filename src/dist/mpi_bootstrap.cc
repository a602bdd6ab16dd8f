// The bootstrap through MPI. MPI carries addresses and ids at start-up, never tensors.
#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <numeric>

#include "dist/bootstrap.h"

namespace weft {
namespace {

class MpiBootstrap final : public Bootstrap {
 public:
  MpiBootstrap(int* argc, char*** argv) {
    int initialized = 0, provided = MPI_THREAD_MULTIPLE;
    MPI_Initialized(&initialized);
    owns_ = !initialized;
    if (owns_) MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    WEFT_CHECK(provided == MPI_THREAD_MULTIPLE, "bootstrap: this MPI has no MPI_THREAD_MULTIPLE");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
    FindHosts();
  }

  ~MpiBootstrap() override {
    // MPI_Finalize waits for the others, who may wait for what this rank will no longer do: leave without it, and
    // mpirun ends the job.
    if (owns_ && std::uncaught_exceptions() == exceptions_) MPI_Finalize();
  }

  std::vector<std::string> AllGather(std::string_view bytes) override {
    int mine = int(bytes.size());
    std::vector<int> sizes, offsets;
    sizes.resize(size_t(world_size_));
    offsets.resize(size_t(world_size_));
    Check(MPI_Allgather(&mine, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD));
    std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
    std::string all(size_t(offsets.back() + sizes.back()), 0);
    Check(MPI_Allgatherv(bytes.data(), mine, MPI_BYTE, all.data(), sizes.data(), offsets.data(), MPI_BYTE,
                         MPI_COMM_WORLD));
    std::vector<std::string> pieces;
    for (int r = 0; r < world_size_; r++)
      pieces.push_back(all.substr(size_t(offsets[size_t(r)]), size_t(sizes[size_t(r)])));
    return pieces;
  }

  [[noreturn]] void Abort(int code) override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }

 private:
  static void Check(int rc) { WEFT_CHECK(rc == MPI_SUCCESS, fmt::format("bootstrap: MPI error {}", rc)); }
  bool owns_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<Bootstrap> MakeMpiBootstrap(int* argc, char*** argv) {
  return std::make_unique<MpiBootstrap>(argc, argv);
}

}  // namespace weft
