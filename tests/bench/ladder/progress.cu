// Probe: what progress words cost, and how soon the host sees them. The words are in pinned host memory. They are
// written while a graph runs: by memory operations of the stream, by a kernel of one thread, or by a host node. One
// process per GPU.
//   chain:       a word after each of 500 short kernels, which run one after the other
//   collectives: a word before and after each of 64 small all-reduces
//   step:        512 words in a graph of 750 ms: after every kernel, and around collectives on two lanes
//   watched:     the host polls while such a step runs
//   round_trip:  the device waits for a word of the host and answers with a word
// NVLink multicast stays off.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "communicator.h"
#include "streams.h"

enum class Mark { kNone, kMemoryOperation, kKernel, kHostNode };
static const char* Name(Mark mark) {
  const char* names[] = {"none", "memory_operation", "kernel", "host_node"};
  return names[int(mark)];
}

__global__ void WriteWord(volatile uint32_t* word, uint32_t value) {
  *word = value;
  __threadfence_system();
}

__device__ uint64_t Nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void Spin(uint64_t nanoseconds) {
  for (const uint64_t begin = Nanoseconds(); Nanoseconds() - begin < nanoseconds;) {
  }
}

__global__ void Stamp(uint64_t* at) { *at = Nanoseconds(); }

// Words in pinned host memory, with their device addresses.
class Words {
 public:
  static constexpr int kCount = 16;
  Words() {
    void *host = nullptr, *device = nullptr;
    Check(cudaHostAlloc(&host, kCount * kStride * 4, cudaHostAllocMapped), "allocate pinned memory");
    Check(cudaHostGetDevicePointer(&device, host, 0), "map pinned memory");
    host_ = static_cast<volatile uint32_t*>(host), device_ = static_cast<uint32_t*>(device);
    for (int i = 0; i < kCount; ++i) Set(i, 0);
  }
  ~Words() { cudaFreeHost(const_cast<uint32_t*>(host_)); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  uint32_t Get(int i) const { return host_[i * kStride]; }
  void Set(int i, uint32_t value) { host_[i * kStride] = value; }
  uint32_t* device(int i) const { return device_ + i * kStride; }

 private:
  static constexpr int kStride = 32;  // a word per 128 bytes, so that no two share a cache line
  volatile uint32_t* host_;
  uint32_t* device_;
};

static void CUDART_CB SetOnHost(void* word) { *static_cast<volatile uint32_t*>(word) = 1; }

// The streams, communicators and buffers of a rank.
struct Rank : Edges {
  static constexpr size_t kLarge = 8 << 20, kSmall = 16 << 10;  // in elements: 16 MiB of bf16, 64 KiB of f32
  explicit Rank(const World& w)
      : Edges(4096), world(w), whole(kLarge), part(kLarge / w.size, 5 + w.rank), from(kSmall, 9 + w.rank), to(kSmall) {
    const auto [low, high] = Priorities();
    main = Stream(low), side = Stream(low);
    for (int i : {0, 1}) lane[i] = Stream(high), comm[i] = std::make_unique<Communicator>(world, 0, false);
  }
  void Put(Mark mark, cudaStream_t stream, int word, uint32_t value) {
    if (mark == Mark::kNone) return;
    if (mark == Mark::kKernel) {
      WriteWord<<<1, 1, 0, stream>>>(words.device(word), value);
      Check(cudaGetLastError(), "launch the kernel of a word");
    } else if (mark == Mark::kHostNode) {
      Check(cudaLaunchHostFunc(stream, SetOnHost, &host_word), "issue a host function");
    } else {
      MemoryOps operation;
      operation.Write(words.device(word), value);
      operation.Issue(stream);
    }
  }
  void AllReduce(int i, cudaStream_t stream) {
    Check(ncclAllReduce(from.data(), to.data(), kSmall, ncclFloat32, ncclSum, *comm[i], stream), "all-reduce");
  }
  void Gather(int i) {
    Check(ncclAllGather(part.data(), whole.data(), kLarge / world.size, ncclBfloat16, *comm[i], lane[i]), "all-gather");
  }

  const World& world;
  Words words;
  uint32_t host_word = 0;
  Buffer<bf16> whole, part;
  Buffer<float> from, to;
  cudaStream_t main, side, lane[2];
  std::unique_ptr<Communicator> comm[2];
};

// ---- what is marked ----

constexpr int kChain = 500, kReduces = 64, kBlocks = 32, kKernels = 12;

static void Chain(Rank& r, Mark mark) {
  for (int i = 0; i < kChain; ++i) {
    Spin<<<1, 32, 0, r.main>>>(10'000);
    r.Put(mark, r.main, 0, i + 1);
  }
}

static void Collectives(Rank& r, Mark mark) {
  for (int i = 0; i < kReduces; ++i) {
    r.Put(mark, r.main, 0, 2 * i + 1);
    r.AllReduce(0, r.main);
    r.Put(mark, r.main, 1, 2 * i + 2);
  }
}

// 32 blocks of 12 kernels, each overlapping with a gather on either lane: 384 words after kernels and 128 around
// gathers. With `stamps`, the device's clock is read just before every word of the main stream.
static void Step(Rank& r, Mark mark, uint64_t* stamps) {
  r.Restart();
  uint32_t position = 0;
  for (auto lane : r.lane) r.Wait(lane, r.main);
  for (int block = 0; block < kBlocks; ++block) {
    for (int i : {0, 1}) {
      r.Wait(r.lane[i], r.main);
      r.Put(mark, r.lane[i], 1 + 2 * i, block + 1);
      r.Gather(i);
      r.Put(mark, r.lane[i], 2 + 2 * i, block + 1);
    }
    for (int i = 0; i < kKernels; ++i) {
      Spin<<<1, 32, 0, r.main>>>(1'953'000);
      if (stamps) Stamp<<<1, 1, 0, r.main>>>(stamps + position);
      r.Put(mark, r.main, 0, ++position);
    }
    for (auto lane : r.lane) r.Wait(r.main, lane);
  }
}

// ---- measuring ----

static float Percentile(std::vector<float> values, double p) {
  std::sort(values.begin(), values.end());
  return values[size_t(p * double(values.size() - 1))];
}

static void Compare(Rank& r, const char* name, int words, const std::vector<Mark>& marks, int settle, int timed,
                    const std::function<void(Mark)>& issue) {
  std::vector<cudaGraphExec_t> graphs;
  std::vector<std::vector<float>> times(marks.size());
  for (Mark mark : marks) {
    if (graphs.empty()) {  // opens connections before the capture
      issue(mark);
      Check(cudaDeviceSynchronize(), "run the marked work once");
    }
    graphs.push_back(Capture(r.main, [&] { issue(mark); }));
  }
  const auto replay = [&](size_t m) {
    return SettledMs(r.world, r.main, settle, timed,
                     [&](int) { Check(cudaGraphLaunch(graphs[m], r.main), "replay marked work"); });
  };
  for (int round = 0; round < 3; ++round)
    for (size_t m = 0; m < marks.size(); ++m) times[m].push_back(replay(m));
  for (auto graph : graphs) Check(cudaGraphExecDestroy(graph), "destroy a graph");
  const float none = Median(times[0]);
  for (size_t m = 0; m < marks.size() && r.world.rank == 0; ++m)
    std::printf(
        "{\"probe\":\"progress\",\"ranks\":%d,\"what\":\"%s\",\"mark\":\"%s\",\"words\":%d,\"ms\":%.4f,"
        "\"added_us\":%.1f,\"added_us_per_word\":%.3f}\n",
        r.world.size, name, Name(marks[m]), words, Median(times[m]), 1e3f * (Median(times[m]) - none),
        1e3f * (Median(times[m]) - none) / float(words));
  std::fflush(stdout);
}

static double HostUs() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns when the host saw each value of word 0 while the stream runs. Polls without a CUDA call.
static std::vector<double> Watch(const Words& words, int values, double seconds) {
  std::vector<double> seen(values, 0);
  const double limit = HostUs() + seconds * 1e6;
  for (uint32_t last = 0; last < uint32_t(values);) {
    const uint32_t now = words.Get(0);
    if (now != last)
      seen.at(now - 1) = HostUs(), last = now;
    else if (HostUs() > limit)
      throw std::runtime_error("the words stopped at " + std::to_string(last));
  }
  return seen;
}

// Watches a running step from the host. The offset between the host's and the device's clocks is unknown. So the
// interval between two words on the host is compared with the interval on the device. The difference shows how unevenly
// words arrive.
static void Watched(Rank& r, Mark mark) {
  constexpr int kValues = kBlocks * kKernels;
  Buffer<uint64_t> stamps(kValues);
  std::vector<uint64_t> device(kValues);
  cudaGraphExec_t graph = Capture(r.main, [&] { Step(r, mark, stamps.data()); });
  std::vector<float> uneven;
  int missed = 0;
  for (int round = 0; round < 2; ++round) {  // the first round warms up
    r.words.Set(0, 0);
    r.world.Barrier();
    Check(cudaGraphLaunch(graph, r.main), "replay a watched step");
    const auto seen = Watch(r.words, kValues, 20);
    Check(cudaStreamSynchronize(r.main), "replay a watched step");
    Check(cudaMemcpy(device.data(), stamps.data(), kValues * 8, cudaMemcpyDeviceToHost), "fetch the stamps");
    uneven.clear(), missed = 0;
    for (int i = 1; i < kValues; ++i) {
      if (seen[i] == 0 || seen[i - 1] == 0)
        missed += seen[i] == 0;
      else
        uneven.push_back(float(std::abs(seen[i] - seen[i - 1] - double(device[i] - device[i - 1]) * 1e-3)));
    }
  }
  Check(cudaGraphExecDestroy(graph), "destroy a graph");
  const float half = r.world.Max(Percentile(uneven, 0.5)), most = r.world.Max(Percentile(uneven, 0.99)),
              worst = r.world.Max(Percentile(uneven, 1)), skipped = r.world.Max(float(missed));
  if (r.world.rank == 0)
    std::printf(
        "{\"probe\":\"progress\",\"ranks\":%d,\"what\":\"watched\",\"mark\":\"%s\",\"words\":%d,"
        "\"uneven_us\":%.2f,\"uneven_p99_us\":%.2f,\"uneven_max_us\":%.2f,\"missed\":%.0f}\n",
        r.world.size, Name(mark), kValues, half, most, worst, skipped);
  std::fflush(stdout);
}

// The host writes word 2 and the device word 3. The device answers from a captured graph.
static std::vector<float> RoundTrips(Rank& r, Mark mark, int trips) {
  constexpr int kQuestion = 2, kAnswer = 3;
  cudaGraphExec_t graph = Capture(r.main, [&] {
    for (int i = 1; i <= trips; ++i) {
      MemoryOps question;
      question.Await(r.words.device(kQuestion), i);
      question.Issue(r.main);
      r.Put(mark, r.main, kAnswer, i);
    }
  });
  r.words.Set(kQuestion, 0), r.words.Set(kAnswer, 0);
  Check(cudaGraphLaunch(graph, r.main), "replay the answers");
  std::vector<float> times;
  for (int i = 1; i <= trips; ++i) {
    const double begin = HostUs();
    r.words.Set(kQuestion, i);
    while (r.words.Get(kAnswer) != uint32_t(i))
      if (HostUs() > begin + 10e6) throw std::runtime_error("the device gave no answer " + std::to_string(i));
    times.push_back(float(HostUs() - begin));
  }
  Check(cudaStreamSynchronize(r.main), "replay the answers");
  Check(cudaGraphExecDestroy(graph), "destroy a graph");
  return times;
}

// Measures when the GPU is idle, or while another stream fills memory with all multiprocessors.
static void RoundTrip(Rank& r, Mark mark, bool loaded) {
  constexpr int kTrips = 400;
  Buffer<float> load(size_t(1) << (loaded ? 28 : 10));
  r.world.Barrier();
  for (int i = 0; loaded && i < 900; ++i)  // half a second; a stream can hold 1024 launches
    FillNormal<<<8192, 256, 0, r.side>>>(load.data(), load.size(), i, 0.f, 1.f);
  Check(cudaGetLastError(), "launch a load");
  const auto times = RoundTrips(r, mark, kTrips);
  const bool lasted = !loaded || cudaStreamQuery(r.side) == cudaErrorNotReady;
  Check(cudaStreamSynchronize(r.side), "run a load");
  const float half = r.world.Max(Percentile(times, 0.5)), most = r.world.Max(Percentile(times, 0.99)),
              worst = r.world.Max(Percentile(times, 1)), ended = r.world.Max(float(!lasted));
  if (r.world.rank == 0)
    std::printf(
        "{\"probe\":\"progress\",\"ranks\":%d,\"what\":\"round_trip\",\"mark\":\"%s\",\"loaded\":%d,\"trips\":%d,"
        "\"us\":%.2f,\"p99_us\":%.2f,\"max_us\":%.2f,\"load_ended_early\":%.0f}\n",
        r.world.size, Name(mark), loaded, kTrips, half, most, worst, ended);
  std::fflush(stdout);
}

// progress
int main() {
  return RunOnRanks("progress", [](const World& world) {
    Rank rank(world);
    const std::vector<Mark> all = {Mark::kNone, Mark::kMemoryOperation, Mark::kKernel, Mark::kHostNode};
    Compare(rank, "chain", kChain, all, 2, 10, [&](Mark mark) { Chain(rank, mark); });
    Compare(rank, "collectives", 2 * kReduces, all, 2, 10, [&](Mark mark) { Collectives(rank, mark); });
    for (Mark mark : {Mark::kMemoryOperation, Mark::kKernel})
      for (bool loaded : {false, true}) RoundTrip(rank, mark, loaded);
    Compare(rank, "step", kBlocks * (kKernels + 4), {Mark::kNone, Mark::kMemoryOperation, Mark::kKernel}, 1, 2,
            [&](Mark mark) { Step(rank, mark, nullptr); });
    for (Mark mark : {Mark::kMemoryOperation, Mark::kKernel}) Watched(rank, mark);
  });
}
