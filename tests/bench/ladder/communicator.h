// NCCL over all ranks: communicators, memory in symmetric windows, the kernel of a captured call, and the sum of
// gathered chunks.
//   World world;   Communicator comm(world, 8, false);   ncclAllGather(shard, whole, n, ncclBfloat16, comm, stream);
#pragma once
#include <nccl.h>

#include <cstdlib>

#include "peers.h"

constexpr int kMaxRanks = 8;

inline void Check(ncclResult_t status, const char* what) {
  if (status != ncclSuccess) throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(status));
}

// Returns a NCCL id that rank 0 makes for all ranks. Collective.
inline ncclUniqueId SharedId(const World& world) {
  ncclUniqueId id;
  if (world.rank == 0) Check(ncclGetUniqueId(&id), "make a NCCL id");
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  return id;
}

class Communicator {
 public:
  Communicator(const World& world, int ctas, bool copy_engines) {
    const ncclUniqueId id = SharedId(world);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (ctas) config.minCTAs = config.maxCTAs = ctas;
    if (copy_engines) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    Check(ncclCommInitRankConfig(&comm_, world.size, id, world.rank, &config), "make a communicator");
  }
  ~Communicator() { ncclCommDestroy(comm_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  operator ncclComm_t() const { return comm_; }

 private:
  ncclComm_t comm_ = nullptr;
};

// Memory in a symmetric window of a communicator, as NCCL's copy-engine collectives require.
class Window {
 public:
  Window(ncclComm_t comm, size_t n) : comm_(comm) {
    void* p = nullptr;
    Check(ncclMemAlloc(&p, n * sizeof(bf16)), "allocate symmetric memory");
    Check(ncclCommWindowRegister(comm, p, n * sizeof(bf16), &window_, NCCL_WIN_COLL_SYMMETRIC), "register a window");
    data = static_cast<bf16*>(p);
  }
  ~Window() { ncclCommWindowDeregister(comm_, window_), ncclMemFree(data); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  bf16* data;

 private:
  ncclComm_t comm_;
  ncclWindow_t window_ = nullptr;
};

struct Chunks {
  const bf16* part[kMaxRanks];
};

// out[n] = the sum of the parts in rank order, in f32, so every run has the same bits.
template <typename Out>
__global__ void SumChunks(Chunks chunks, int parts, Out* out, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n / 8; i += size_t(gridDim.x) * blockDim.x) {
    float sum[8] = {};
    for (int p = 0; p < parts; ++p) {
      const uint4 raw = reinterpret_cast<const uint4*>(chunks.part[p])[i];
      const bf16* x = reinterpret_cast<const bf16*>(&raw);
      for (int e = 0; e < 8; ++e) sum[e] += __bfloat162float(x[e]);
    }
    alignas(16) Out result[8];
    for (int e = 0; e < 8; ++e) result[e] = Out(sum[e]);
    for (size_t v = 0; v < sizeof result / 16; ++v)
      reinterpret_cast<uint4*>(out + 8 * i)[v] = reinterpret_cast<uint4*>(result)[v];
  }
}

struct NodeKernel {
  std::string name;
  unsigned blocks = 0;
};

// Returns a graph's kernel whose name does not contain `but`. After the capture of a call it is what NCCL chose.
inline NodeKernel KernelOf(cudaGraph_t graph, const std::string& but) {
  size_t count = 0;
  Check(cudaGraphGetNodes(graph, nullptr, &count), "count a graph's nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  Check(cudaGraphGetNodes(graph, nodes.data(), &count), "read a graph's nodes");
  for (auto node : nodes) {
    cudaGraphNodeType type;
    Check(cudaGraphNodeGetType(node, &type), "read a node's type");
    if (type != cudaGraphNodeTypeKernel) continue;
    CUDA_KERNEL_NODE_PARAMS parameters = {};
    const char* name = nullptr;
    Check(cuGraphKernelNodeGetParams(node, &parameters), "read a kernel's parameters");
    if (parameters.func)
      Check(cuFuncGetName(&name, parameters.func), "read a kernel's name");
    else
      Check(cuKernelGetName(&name, parameters.kern), "read a kernel's name");
    if (std::string(name).find(but) == std::string::npos) return {name, parameters.gridDimX};
  }
  return {"none", 0};
}

// Prints the versions that a probe runs with.
inline void PrintVersions() {
  int nccl = 0;
  Check(ncclGetVersion(&nccl), "read NCCL's version");
  std::printf("{\"probe\":\"versions\",%s,\"nccl\":%d}\n", DeviceLine().c_str(), nccl);
  std::fflush(stdout);
}

// The main function of a probe on 2 to 8 GPUs of one host. Every rank takes its own GPU, and a failure on one rank ends
// all.
inline int RunOnRanks(const char* program, const std::function<void(const World&)>& measure) try {
  setenv("NCCL_NVLS_ENABLE", "0", 1);  // multicast is off even if the environment does not say so
  World world;
  if (world.size < 2 || world.size > kMaxRanks)
    throw std::runtime_error("takes 2 to 8 ranks, got " + std::to_string(world.size));
  Check(cudaSetDevice(world.rank), "take a GPU");
  if (world.rank == 0) PrintVersions();
  measure(world);
  MPI_Finalize();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s: %s\n", program, e.what());
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}
