// Probe: the time of each of NCCL's collectives by itself in a CUDA graph, to compare with `weft bench collective
// op=all`. One process per GPU, memory of cudaMalloc, and sizes as `weft bench` counts them: bytes of the larger of a
// rank's buffers.
#include <cstdio>

#include "communicator.h"
#include "streams.h"

namespace {

constexpr int kCalls = 8;  // in one graph
constexpr size_t kSizes[] = {size_t(64) << 20, size_t(256) << 20};

struct Operands {
  const World& world;
  ncclComm_t comm;
  cudaStream_t stream;
  float *from, *to;
  size_t count;  // elements of the larger buffer
  size_t part() const { return count / size_t(world.size); }
};

void AllReduce(const Operands& x) {
  Check(ncclAllReduce(x.from, x.to, x.count, ncclFloat32, ncclSum, x.comm, x.stream), "all-reduce");
}
void AllGather(const Operands& x) {
  Check(ncclAllGather(x.from, x.to, x.part(), ncclFloat32, x.comm, x.stream), "all-gather");
}
void ReduceScatter(const Operands& x) {
  Check(ncclReduceScatter(x.from, x.to, x.part(), ncclFloat32, ncclSum, x.comm, x.stream), "reduce-scatter");
}
void Broadcast(const Operands& x) {
  Check(ncclBroadcast(x.from, x.to, x.count, ncclFloat32, 0, x.comm, x.stream), "broadcast");
}
void Reduce(const Operands& x) {
  Check(ncclReduce(x.from, x.to, x.count, ncclFloat32, ncclSum, 0, x.comm, x.stream), "reduce");
}
// A rank sends the parts that begin `step` elements apart, one to each rank.
void Exchange(const Operands& x, size_t step) {
  Check(ncclGroupStart(), "begin a group");
  for (int peer = 0; peer < x.world.size; peer++) {
    Check(ncclSend(x.from + size_t(peer) * step, x.part(), ncclFloat32, peer, x.comm, x.stream), "send");
    Check(ncclRecv(x.to + size_t(peer) * x.part(), x.part(), ncclFloat32, peer, x.comm, x.stream), "receive");
  }
  Check(ncclGroupEnd(), "end a group");
}
// Pairs of ranks, as `weft bench` has them: even ranks send and odd ranks receive.
void SendAndReceive(const Operands& x) {
  const int peer = x.world.rank ^ 1;
  if (peer >= x.world.size) return;
  if (x.world.rank % 2 == 0)
    Check(ncclSend(x.from, x.count, ncclFloat32, peer, x.comm, x.stream), "send");
  else
    Check(ncclRecv(x.to, x.count, ncclFloat32, peer, x.comm, x.stream), "receive");
}
void AllToAll(const Operands& x) { Exchange(x, x.part()); }
void AllGatherV(const Operands& x) { Exchange(x, 0); }  // with equal counts, as the bench gives them
void Shift(const Operands& x) {
  const int n = x.world.size, me = x.world.rank;
  Check(ncclGroupStart(), "begin a group");
  Check(ncclSend(x.from, x.count, ncclFloat32, (me + 1) % n, x.comm, x.stream), "send");
  Check(ncclRecv(x.to, x.count, ncclFloat32, (me + n - 1) % n, x.comm, x.stream), "receive");
  Check(ncclGroupEnd(), "end a group");
}

struct Collective {
  const char* name;
  void (*issue)(const Operands&);
};
constexpr Collective kCollectives[] = {{"all_reduce", AllReduce},
                                       {"all_gather", AllGather},
                                       {"reduce_scatter", ReduceScatter},
                                       {"all_to_all", AllToAll},
                                       {"broadcast", Broadcast},
                                       {"reduce", Reduce},
                                       {"shift", Shift},
                                       {"send", SendAndReceive},
                                       {"all_gather_v", AllGatherV}};  // all_to_all_v with equal counts is all_to_all

// Returns the median of five settled times of a replay, in us per call.
float GraphUs(const Operands& x, const Collective& collective) {
  collective.issue(x);  // opens connections before the capture
  Check(cudaStreamSynchronize(x.stream), "run the call once");
  cudaGraph_t graph = CaptureGraph(x.stream, [&] {
    for (int i = 0; i < kCalls; i++) collective.issue(x);
  });
  cudaGraphExec_t replay;
  Check(cudaGraphInstantiate(&replay, graph, 0), "instantiate a graph");
  std::vector<float> times;
  for (int i = 0; i < 5; i++)
    times.push_back(
        SettledMs(x.world, x.stream, 3, 10, [&](int) { Check(cudaGraphLaunch(replay, x.stream), "replay"); }));
  Check(cudaGraphExecDestroy(replay), "destroy a graph");
  Check(cudaGraphDestroy(graph), "destroy a captured graph");
  return Median(times) * 1e3f / kCalls;
}

}  // namespace

// bare
int main() {
  return RunOnRanks("bare", [](const World& world) {
    Communicator comm(world, 0, false);
    cudaStream_t stream = Stream(Priorities().high);
    Buffer<float> from(kSizes[1] / 4, 40 + world.rank), to(kSizes[1] / 4, 1);
    for (size_t bytes : kSizes)
      for (const Collective& collective : kCollectives) {
        const float us = GraphUs({world, comm, stream, from.data(), to.data(), bytes / 4}, collective);
        if (world.rank == 0)
          std::printf("{\"probe\":\"bare\",\"ranks\":%d,\"call\":\"%s\",\"bytes\":%zu,\"graph_us\":%.2f}\n", world.size,
                      collective.name, bytes, us);
      }
  });
}
