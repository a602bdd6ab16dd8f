// Probe: what a NCCL call costs in a CUDA graph: time, nodes and memory. One process per GPU. NCCL reads its settings
// once per process, so NCCL_GRAPH_MIXING_SUPPORT, NCCL_GRAPH_REGISTER and NCCL_LAUNCH_ORDER_IMPLICIT are compared
// between runs, and each line names them. NVLink multicast stays off.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "block.h"
#include "communicator.h"
#include "streams.h"

// kJoined: a kernel of the main stream runs before each all-reduce, and the main stream waits for the all-reduce
// afterwards.
enum class Call { kAllReduce, kTwoLanes, kJoined, kGather, kScatter };
static const char* Name(Call call) {
  const char* names[] = {"all_reduce", "all_reduce_on_two_communicators", "all_reduce_joined_to_kernels",
                         "all_gather_of_a_block", "reduce_scatter_of_a_block"};
  return names[int(call)];
}

struct Case {
  Call call;
  size_t bytes;  // of the whole tensors of one call
  int calls;     // in one graph
  bool nccl_memory = false;
};

static const char* Setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "default";
}

// ---- memory ----

struct Memory {
  Memory() {
    size_t free = 0, total = 0;
    Check(cudaMemGetInfo(&free, &total), "read the free memory");
    device = double(total - free);
    std::ifstream statm("/proc/self/statm");
    double pages = 0;
    statm >> pages >> pages;
    host = pages * 4096;
  }
  double device, host;
};

// Memory from cudaMalloc, or from NCCL, which can map its own memory into other processes and so copy without its
// buffers.
class Space {
 public:
  Space(size_t bytes, bool of_nccl) : of_nccl_(of_nccl) {
    if (of_nccl)
      Check(ncclMemAlloc(&data_, bytes), "allocate NCCL's memory");
    else
      Check(cudaMalloc(&data_, bytes), "allocate a buffer");
  }
  ~Space() { of_nccl_ ? void(ncclMemFree(data_)) : void(cudaFree(data_)); }
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  bool of_nccl_;
  void* data_ = nullptr;
};

// ---- the calls of a case ----

struct Rank : Edges {
  explicit Rank(const World& w) : Edges(1024), world(w), touched(1 << 10, 1) {
    const auto [low, high] = Priorities();
    main = Stream(low);
    for (int i : {0, 1}) lane[i] = Stream(high);
    const Memory before;
    for (auto& c : comm) c = std::make_unique<Communicator>(world, 0, false);
    communicator_bytes = (Memory().device - before.device) / 2;
  }
  const World& world;
  Buffer<float> touched;
  cudaStream_t main, lane[2];
  std::unique_ptr<Communicator> comm[2];
  double communicator_bytes = 0;
};

__global__ void Touch(float* x) { x[threadIdx.x] = 0.5f * x[threadIdx.x] + 1.f; }

class Body {
 public:
  Body(Rank& r, const Case& c) : r_(r), case_(c), n_(r.world.size) {
    for (auto& space : space_) space = std::make_unique<Space>(Bytes(), c.nccl_memory);
    Fill();
  }
  void Fill() {
    const size_t bytes = Bytes();
    if (blocks())
      FillNormal<<<1024, 256>>>(from<bf16>(), bytes / 2, Seed(r_.world.rank), 0.f, 1.f);
    else
      FillNormal<<<1024, 256>>>(from<float>(), bytes / 4, Seed(r_.world.rank), 0.f, 1.f);
    Check(cudaMemset(to<char>(), 0xff, bytes), "poison the result");
    Check(cudaDeviceSynchronize(), "fill the operand");
  }
  void Issue() {
    r_.Restart();
    for (auto lane : r_.lane) r_.Wait(lane, r_.main);
    for (int i = 0; i < case_.calls; ++i) IssueCall(i);
    for (auto lane : r_.lane) r_.Wait(r_.main, lane);
  }
  // Returns the largest difference of samples from the expected values, divided by the tolerance; above 1 is wrong.
  float Error() const {
    float worst = 0;
    const size_t elements = blocks() ? kBlock : lanes() * case_.bytes / 4;
    const size_t held = case_.call == Call::kScatter ? elements / n_ : elements;
    for (size_t i = 0; i < held; i += (held + 96) / 97) {
      const auto [expected, tolerance] = Expected(i);
      const float got = blocks() ? Fetch(to<bf16>() + i) : Fetch(to<float>() + i);
      worst = std::max(worst, Excess(got, expected, tolerance));
    }
    return r_.world.Max(worst);
  }

 private:
  static uint32_t Seed(int rank) { return 40 + rank; }
  int lanes() const { return case_.call == Call::kTwoLanes ? 2 : 1; }
  size_t Bytes() const { return lanes() * std::max<size_t>(case_.bytes, 4096); }
  bool blocks() const { return case_.call == Call::kGather || case_.call == Call::kScatter; }
  template <typename T>
  T* from() const {
    return space_[0]->as<T>();
  }
  template <typename T>
  T* to() const {
    return space_[1]->as<T>();
  }
  void IssueCall(int i) {
    if (blocks()) return CallOfBlock();
    const int lane = i % lanes();  // each lane has its own operand
    if (case_.call == Call::kJoined) {
      Touch<<<1, 256, 0, r_.main>>>(r_.touched.data());
      r_.Wait(r_.lane[0], r_.main);
    }
    const size_t count = case_.bytes / 4;
    Check(ncclAllReduce(from<float>() + lane * count, to<float>() + lane * count, count, ncclFloat32, ncclSum,
                        *r_.comm[lane], r_.lane[lane]),
          "all-reduce");
    if (case_.call == Call::kJoined) r_.Wait(r_.main, r_.lane[0]);
  }
  void CallOfBlock() {  // one group with a call per tensor, directly into place
    Check(ncclGroupStart(), "begin a group");
    for (const Piece& p : BlockTensors()) {
      if (case_.call == Call::kGather)
        Check(ncclAllGather(from<bf16>() + p.offset / n_, to<bf16>() + p.offset, p.size / n_, ncclBfloat16, *r_.comm[0],
                            r_.lane[0]),
              "all-gather");
      else
        Check(ncclReduceScatter(from<bf16>() + p.offset, to<bf16>() + p.offset / n_, p.size / n_, ncclBfloat16, ncclSum,
                                *r_.comm[0], r_.lane[0]),
              "reduce-scatter");
    }
    Check(ncclGroupEnd(), "end a group");
  }
  // Returns element i of the result, and its tolerance: bf16 sums round at each hop.
  std::pair<double, double> Expected(size_t i) const {
    if (!blocks()) {
      double sum = 0;
      for (int rank = 0; rank < n_; ++rank) sum += Normal(i, Seed(rank));
      return {sum, 1e-5 * std::max(1., std::abs(sum))};
    }
    for (const Piece& p : BlockTensors()) {
      const size_t part = p.size / n_, first = case_.call == Call::kGather ? p.offset : p.offset / n_;
      const size_t size = case_.call == Call::kGather ? p.size : part;
      if (i < first || i >= first + size) continue;
      if (case_.call == Call::kGather)
        return {float(bf16(Normal(p.offset / n_ + (i - first) % part, Seed(int((i - first) / part))))), 1e-6};
      double sum = 0;
      for (int rank = 0; rank < n_; ++rank)
        sum += float(bf16(Normal(p.offset + r_.world.rank * part + i - first, Seed(rank))));
      return {sum, 0.05 * std::max(1., std::abs(sum))};
    }
    throw std::logic_error("no tensor of the block holds the element");
  }

  Rank& r_;
  Case case_;
  int n_;
  std::unique_ptr<Space> space_[2];
};

// ---- measuring ----

struct Nodes {
  size_t all = 0, kernels = 0, event_waits = 0, event_records = 0, host = 0;
};

static Nodes Count(cudaGraph_t graph) {
  Nodes counts;
  Check(cudaGraphGetNodes(graph, nullptr, &counts.all), "count a graph's nodes");
  std::vector<cudaGraphNode_t> nodes(counts.all);
  Check(cudaGraphGetNodes(graph, nodes.data(), &counts.all), "read a graph's nodes");
  for (auto node : nodes) {
    cudaGraphNodeType type;
    Check(cudaGraphNodeGetType(node, &type), "read a node's type");
    counts.kernels += type == cudaGraphNodeTypeKernel;
    counts.event_waits += type == cudaGraphNodeTypeWaitEvent;
    counts.event_records += type == cudaGraphNodeTypeEventRecord;
    counts.host += type == cudaGraphNodeTypeHost;
  }
  return counts;
}

static double MsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

struct Result {
  Nodes nodes;
  float eager_us = 0, graph_us = 0, capture_ms = 0, instantiate_ms = 0, first_launch_ms = 0, error = 0;
  int replays = 0;
  double device_bytes = 0, device_slope = 0, host_slope = 0, replay_slope = 0;
};

// Captures the body and replays it once. The caller owns the executable graph.
static cudaGraphExec_t CaptureTimed(Rank& r, Body& body, Result& result) {
  cudaGraphExec_t executable;
  r.world.Barrier();
  auto begin = std::chrono::steady_clock::now();
  cudaGraph_t graph = CaptureGraph(r.main, [&] { body.Issue(); });
  result.capture_ms = float(MsSince(begin));
  result.nodes = Count(graph);
  begin = std::chrono::steady_clock::now();
  Check(cudaGraphInstantiate(&executable, graph, 0), "instantiate a graph");
  result.instantiate_ms = float(MsSince(begin));
  Check(cudaGraphDestroy(graph), "destroy a captured graph");
  r.world.Barrier();
  begin = std::chrono::steady_clock::now();
  Check(cudaGraphLaunch(executable, r.main), "replay a graph");
  Check(cudaStreamSynchronize(r.main), "replay a graph once");
  result.first_launch_ms = float(MsSince(begin));
  return executable;
}

// Returns the median of five settled times in us per call. Each time is over as many launches as take about 10 ms.
static float CallUs(Rank& r, const Case& c, const std::function<void()>& launch) {
  const auto run = [&](int) { launch(); };
  const float once = SettledMs(r.world, r.main, 1, 2, run);
  const int launches = std::clamp(int(10 / std::max(once, 1e-3f)), 2, 100);
  std::vector<float> times;
  for (int i = 0; i < 5; ++i) times.push_back(SettledMs(r.world, r.main, launches / 2 + 1, launches, run));
  return Median(times) * 1e3f / float(c.calls);
}

// Measures the memory that remains per graph after ten graphs were captured, replayed and destroyed, and the memory
// that remains after many replays of one graph.
static void Grow(Rank& r, Body& body, cudaGraphExec_t graph, float graph_ms, Result& result) {
  constexpr int kGraphs = 10;
  const Memory before;
  for (int i = 0; i < kGraphs; ++i) {
    Result unused;
    Check(cudaGraphExecDestroy(CaptureTimed(r, body, unused)), "destroy a graph");
  }
  const Memory captured;
  result.device_slope = (captured.device - before.device) / kGraphs;
  result.host_slope = (captured.host - before.host) / kGraphs;
  result.replays = std::clamp(int(400 / graph_ms), 20, 2000);
  for (int i = 0; i < result.replays; ++i) Check(cudaGraphLaunch(graph, r.main), "replay a graph");
  Check(cudaStreamSynchronize(r.main), "replay a graph many times");
  result.replay_slope = Memory().device - captured.device;
}

static Result Measure(Rank& r, const Case& c) {
  Result result;
  Body body(r, c);
  body.Issue();  // opens connections before the capture
  Check(cudaDeviceSynchronize(), "run the calls once");
  result.error = body.Error();
  result.eager_us = CallUs(r, c, [&] { body.Issue(); });
  const Memory before;
  cudaGraphExec_t graph = CaptureTimed(r, body, result);
  result.device_bytes = Memory().device - before.device;
  body.Fill();
  result.graph_us = CallUs(r, c, [&] { Check(cudaGraphLaunch(graph, r.main), "replay the calls"); });
  result.error = std::max(result.error, body.Error());
  Grow(r, body, graph, result.graph_us * float(c.calls) * 1e-3f, result);
  // Replays and direct calls in turns. The host waits in between, which is required without NCCL's graph mixing.
  body.Fill();
  for (int i = 0; i < 20; ++i) {
    if (i % 2)
      body.Issue();
    else
      Check(cudaGraphLaunch(graph, r.main), "replay the calls");
    Check(cudaStreamSynchronize(r.main), "run calls in turns");
  }
  result.error = std::max(result.error, body.Error());
  Check(cudaGraphExecDestroy(graph), "destroy a graph");
  return result;
}

static void Print(const Rank& r, const Case& c, const Result& v) {
  if (r.world.rank != 0) return;
  const double n = r.world.size, share = c.call == Call::kGather || c.call == Call::kScatter ? 1 : 2;
  std::printf(
      "{\"probe\":\"captured\",\"ranks\":%d,\"mixing\":\"%s\",\"register\":\"%s\",\"implicit_order\":\"%s\","
      "\"call\":\"%s\",\"bytes\":%zu,\"calls\":%d,\"memory\":\"%s\",\"eager_us\":%.2f,\"graph_us\":%.2f,"
      "\"bus_gb_s\":%.1f,\"nodes\":%zu,\"kernels\":%zu,\"event_waits\":%zu,\"event_records\":%zu,\"host_nodes\":%zu,"
      "\"capture_ms\":%.2f,\"instantiate_ms\":%.2f,\"first_launch_ms\":%.2f,\"graph_mib\":%.2f,"
      "\"lost_per_capture_kib\":%.1f,\"host_lost_per_capture_kib\":%.1f,\"replays\":%d,"
      "\"lost_in_replays_kib\":%.1f,\"communicator_mib\":%.1f,\"error\":%.2g}\n",
      r.world.size, Setting("NCCL_GRAPH_MIXING_SUPPORT"), Setting("NCCL_GRAPH_REGISTER"),
      Setting("NCCL_LAUNCH_ORDER_IMPLICIT"), Name(c.call), c.bytes, c.calls, c.nccl_memory ? "nccl" : "cuda",
      v.eager_us, v.graph_us, share * (n - 1) / n * double(c.bytes) / v.graph_us * 1e-3, v.nodes.all, v.nodes.kernels,
      v.nodes.event_waits, v.nodes.event_records, v.nodes.host, v.capture_ms, v.instantiate_ms, v.first_launch_ms,
      v.device_bytes / 1048576, v.device_slope / 1024, v.host_slope / 1024, v.replays, v.replay_slope / 1024,
      r.communicator_bytes / 1048576, v.error);
  std::fflush(stdout);
}

// captured
int main() {
  return RunOnRanks("captured", [](const World& world) {
    Rank rank(world);
    std::vector<Case> cases = {{Call::kAllReduce, 4, 100},
                               {Call::kAllReduce, 64 << 10, 100},
                               {Call::kJoined, 64 << 10, 100},
                               {Call::kTwoLanes, 64 << 10, 100},
                               {Call::kAllReduce, 1 << 20, 50}};
    for (bool nccl_memory : {false, true}) {
      cases.push_back({Call::kAllReduce, 64 << 20, 8, nccl_memory});
      for (Call call : {Call::kGather, Call::kScatter}) cases.push_back({call, 2 * kBlock, 4, nccl_memory});
    }
    for (const Case& c : cases) Print(rank, c, Measure(rank, c));
  });
}
