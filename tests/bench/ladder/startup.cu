// Probe: the time from the launch to the first replay of captured NCCL calls, phase by phase, and the memory that
// communicators take. One process per GPU. Each phase ends with a barrier, so a line gives the time when the slowest
// rank reached its end, in seconds since the launch. NVLink multicast stays off.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "communicator.h"
#include "product.h"
#include "streams.h"

using Seconds = std::chrono::duration<double>;

// The phases of one launch on this rank, in order.
class Timeline {
 public:
  Timeline(const World& world, double launched) : world_(world), launched_(launched) {}
  static double Now() { return Seconds(std::chrono::system_clock::now().time_since_epoch()).count(); }
  // Collective.
  void End(const char* phase) {
    world_.Barrier();
    phases_.push_back({phase, Now() - launched_});
  }
  std::string Json() const {
    std::string text;
    for (const auto& [name, seconds] : phases_) {
      char value[64];
      std::snprintf(value, sizeof value, "\"%s_s\":%.3f,", name, seconds);
      text += value;
    }
    return text;
  }

 private:
  const World& world_;
  double launched_;
  std::vector<std::pair<const char*, double>> phases_;
};

static double UsedMib() {
  size_t free = 0, total = 0;
  Check(cudaMemGetInfo(&free, &total), "read the free memory");
  return double(total - free) / 1048576;
}

// A communicator over all ranks, split into lanes that share no resources. ctas: 0 is NCCL's own choice.
struct Communicators {
  struct Lane {
    const char* name;
    int ctas;
  };
  static constexpr Lane kLanes[] = {{"gather", 0}, {"scatter", 8}, {"tensor", 0}, {"small", 1}};
  void Make(const World& w, const ncclUniqueId& id) {
    const double begin = UsedMib();
    const double start = Timeline::Now();
    Check(ncclCommInitRank(&world, w.size, id, w.rank), "make a communicator");
    world_s = Timeline::Now() - start;
    double used = UsedMib();
    world_mib = used - begin;
    for (size_t i = 0; i < std::size(kLanes); ++i) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.splitShare = 0;
      if (kLanes[i].ctas) config.minCTAs = 1, config.maxCTAs = kLanes[i].ctas;
      Check(ncclCommSplit(world, 0, w.rank, &lane[i], &config), "split a communicator");
      split_mib[i] = UsedMib() - used;
      used += split_mib[i];
    }
    splits_s = Timeline::Now() - start - world_s;
  }
  void Destroy() {
    for (auto comm : lane) Check(ncclCommDestroy(comm), "destroy a communicator");
    Check(ncclCommDestroy(world), "destroy a communicator");
  }
  ncclComm_t world = nullptr, lane[std::size(kLanes)] = {};
  double world_mib = 0, split_mib[std::size(kLanes)] = {}, connect_mib[std::size(kLanes)] = {}, world_s = 0,
         splits_s = 0;
};

// The captured work: a product, and on each lane an all-gather, a reduce-scatter and an all-reduce of 32 MiB.
struct Work : Edges {
  static constexpr size_t kElements = 16 << 20;
  static constexpr int kSide = 4096;
  Work() : Edges(16) {
    const auto [low, high] = Priorities();
    main = Stream(low), side = Stream(high);
  }
  void Load(int rank) {
    Check(cublasLtCreate(&cublas), "make a cuBLASLt handle");
    product = std::make_unique<Product>(cublas, ProductShape{.m = kSide, .n = kSide, .k = kSide});
    workspace = std::make_unique<Buffer<uint8_t>>(kWorkspace);
    for (auto& b : buffers) b = std::make_unique<Buffer<bf16>>(kElements, 3 + rank);
    Multiply();
    Check(cudaStreamSynchronize(main), "run the first product");
  }
  void Multiply() { product->Run(buffers[0]->data(), buffers[1]->data(), buffers[2]->data(), workspace->data(), main); }
  void Collectives(ncclComm_t comm, int ranks) {
    bf16 *from = buffers[0]->data(), *to = buffers[3]->data();
    Check(ncclAllGather(from, to, kElements / ranks, ncclBfloat16, comm, side), "all-gather");
    Check(ncclReduceScatter(from, to, kElements / ranks, ncclBfloat16, ncclSum, comm, side), "reduce-scatter");
    Check(ncclAllReduce(from, to, kElements, ncclBfloat16, ncclSum, comm, side), "all-reduce");
  }
  void Step(const Communicators& comms, int ranks) {
    Restart();
    Wait(side, main);
    Multiply();
    for (auto comm : comms.lane) Collectives(comm, ranks);
    Wait(main, side);
  }
  cudaStream_t main, side;
  cublasLtHandle_t cublas;
  std::unique_ptr<Product> product;
  std::unique_ptr<Buffer<uint8_t>> workspace;
  std::unique_ptr<Buffer<bf16>> buffers[4];
};

static void Connect(Communicators& comms, Work& work, int ranks) {
  for (size_t i = 0; i < std::size(Communicators::kLanes); ++i) {
    const double before = UsedMib();
    work.Collectives(comms.lane[i], ranks);
    Check(cudaStreamSynchronize(work.side), "run a lane's first collectives");
    comms.connect_mib[i] = UsedMib() - before;
  }
}

static void Launch(Work& work, cudaGraphExec_t graph) {
  Check(cudaGraphLaunch(graph, work.main), "replay the first step");
  Check(cudaStreamSynchronize(work.main), "replay the first step");
}

static std::string Setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "default";
}

static void Print(const World& world, const std::string& label, const std::string& order, const Timeline& timeline,
                  const Communicators& c) {
  if (world.rank != 0) return;
  std::string lanes;
  for (size_t i = 0; i < std::size(c.kLanes); ++i) {
    char text[160];
    std::snprintf(text, sizeof text, "\"%s_ctas\":%d,\"%s_split_mib\":%.1f,\"%s_connect_mib\":%.1f,", c.kLanes[i].name,
                  c.kLanes[i].ctas, c.kLanes[i].name, c.split_mib[i], c.kLanes[i].name, c.connect_mib[i]);
    lanes += text;
  }
  std::printf(
      "{\"probe\":\"startup\",\"ranks\":%d,\"label\":\"%s\",\"order\":\"%s\",\"interface\":\"%s\","
      "\"runtime_connect\":\"%s\",\"module_loading\":\"%s\",%s\"world_alone_s\":%.3f,\"splits_alone_s\":%.3f,"
      "\"world_mib\":%.1f,%s\"used_mib\":%.1f}\n",
      world.size, label.c_str(), order.c_str(), Setting("NCCL_SOCKET_IFNAME").c_str(),
      Setting("NCCL_RUNTIME_CONNECT").c_str(), Setting("CUDA_MODULE_LOADING").c_str(), timeline.Json().c_str(),
      c.world_s, c.splits_s, c.world_mib, lanes.c_str(), UsedMib());
  std::fflush(stdout);
}

// Creates communicators on another thread while this one loads cuBLASLt and fills memory. Their memory cannot be
// separated apart from other memory in this mode.
static void MakeBeside(const World& world, const ncclUniqueId& id, Communicators& comms, Work& work) {
  std::exception_ptr failure;
  std::thread maker([&] {
    try {
      Check(cudaSetDevice(world.rank), "take a GPU");
      comms.Make(world, id);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  try {
    work.Load(world.rank);
  } catch (...) {
    maker.join();
    throw;
  }
  maker.join();
  if (failure) std::rethrow_exception(failure);
}

// startup LABEL [series | beside] [SECONDS]    SECONDS: when the launch began, since 1970; the start of main by default
int main(int argc, char** argv) try {
  const double entered = Timeline::Now();
  setenv("NCCL_NVLS_ENABLE", "0", 1);  // multicast is off even if the environment does not say so
  const std::string label = argc > 1 ? argv[1] : "", order = argc > 2 ? argv[2] : "series";
  World world;
  if (world.size < 2 || world.size > kMaxRanks) throw std::runtime_error("takes 2 to 8 ranks");
  if (order != "series" && order != "beside") throw std::runtime_error("takes series or beside, got " + order);
  Timeline timeline(world, argc > 3 ? std::atof(argv[3]) : entered);
  timeline.End("mpi");
  Check(cudaSetDevice(world.rank), "take a GPU");
  Check(cudaFree(nullptr), "make a context");
  timeline.End("context");
  const ncclUniqueId id = SharedId(world);
  timeline.End("id");
  Communicators comms;
  {
    Work work;
    if (order == "beside") {
      MakeBeside(world, id, comms, work);
      timeline.End("communicators_and_product");
    } else {
      comms.Make(world, id);
      timeline.End("communicators");
      work.Load(world.rank);
      timeline.End("product");
    }
    Connect(comms, work, world.size);
    timeline.End("connect");
    cudaGraphExec_t graph = Capture(work.main, [&] { work.Step(comms, world.size); });
    timeline.End("capture");
    Launch(work, graph);
    timeline.End("first_replay");
    Launch(work, graph);
    timeline.End("second_replay");
    Print(world, label, order, timeline, comms);
    Check(cudaGraphExecDestroy(graph), "destroy a graph");
  }
  comms.Destroy();
  MPI_Finalize();
} catch (const std::exception& e) {
  std::fprintf(stderr, "startup: %s\n", e.what());
  MPI_Abort(MPI_COMM_WORLD, 1);
}
