// Probe: whether NCCL groups of many small calls end, on 2 to 8 GPUs of one host with one process per GPU.
//
//   mpirun -np 4 --bind-to none BIN/grouped OP CALLS [uneven]     OP: reduce_scatter or all_gather
//
// The sizes are those of a small GPT-2 with uneven shapes. With `uneven` the last rank makes the same calls in two
// groups. Prints a line per rank, and exits with code 3 if the calls do not end within 3 s. NVLink multicast stays off.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

#include "communicator.h"

// The f64 elements that a rank keeps of each tensor, in the order of the gradients.
constexpr size_t kCounts[] = {60, 300, 8,   8,  240, 12, 240, 12, 240, 12, 360, 8, 8,   8,  400, 13, 390, 8,
                              8,  8,   240, 12, 240, 12, 240, 12, 360, 8,  8,   8, 400, 13, 390, 8,  8,   8};
constexpr size_t kSlot = 512;  // elements, at least the largest count

struct Calls {
  bool scatters;
  int count;
};

// Issues the calls from `begin` to before `end` as one group.
void Issue(const Calls& calls, int begin, int end, const World& world, ncclComm_t comm, double* whole, double* part,
           cudaStream_t stream) {
  Check(ncclGroupStart(), "begin a group");
  for (int i = begin; i < end; i++) {
    const size_t count = kCounts[size_t(i) % std::size(kCounts)];
    double *all = whole + size_t(i) * kSlot * size_t(world.size), *own = part + size_t(i) * kSlot;
    Check(calls.scatters ? ncclReduceScatter(all, own, count, ncclFloat64, ncclSum, comm, stream)
                         : ncclAllGather(own, all, count, ncclFloat64, comm, stream),
          "put a call");
  }
  Check(ncclGroupEnd(), "end a group");
}

// Returns whether the stream's work ends within 3 s.
bool Ends(cudaStream_t stream) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  while (std::chrono::steady_clock::now() < deadline) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return true;
    if (status != cudaErrorNotReady) Check(status, "wait for a group");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

int main(int argc, char** argv) {
  return RunOnRanks("grouped", [&](const World& world) {
    if (argc < 3) throw std::runtime_error("takes an op and a number of calls");
    const Calls calls{std::strcmp(argv[1], "reduce_scatter") == 0, std::atoi(argv[2])};
    const bool uneven = argc > 3;
    Communicator comm(world, 0, false);
    Buffer<double> whole(size_t(calls.count) * kSlot * size_t(world.size), 1), part(size_t(calls.count) * kSlot, 2);
    cudaStream_t stream = nullptr;
    Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream");
    const int first = uneven && world.rank + 1 == world.size ? calls.count / 2 : calls.count;
    Issue(calls, 0, first, world, comm, whole.data(), part.data(), stream);
    if (first < calls.count) Issue(calls, first, calls.count, world, comm, whole.data(), part.data(), stream);
    const bool ended = Ends(stream);
    std::printf("{\"probe\":\"grouped\",\"rank\":%d,\"op\":\"%s\",\"calls\":%d,\"uneven\":%s,\"ended\":%s}\n",
                world.rank, argv[1], calls.count, uneven ? "true" : "false", ended ? "true" : "false");
    std::fflush(stdout);
    if (!ended) _exit(3);
  });
}
