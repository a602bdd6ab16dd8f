// Probe: how much of a step's collectives is hidden by its products inside one CUDA graph, with one process per GPU.
// There are 16 layers. Each gathers a weight [4096, 14336] bf16 (117 MB), computes two products with 8192 rows, and
// reduce-scatters the weight's gradient. The bytes move by NCCL's kernels on n CTAs, by NCCL's copy-engine gather (CTA
// policy zero on symmetric windows), or by own copy-engine pulls from IPC-mapped peer memory. NVLink multicast stays
// off.
// The protocol of own pulls: words are 0 or 1, are written to the reader's memory, and are taken (awaited and cleared)
// by the reader.
// - gather: shards do not change inside a step, so one barrier before the first pull and one after the last are enough.
// - scatter: the producer sends "ready" to the consumer after G is written. The consumer sends "done" back after the
//   pull, and the producer takes it before it rewrites G.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "communicator.h"
#include "product.h"
#include "streams.h"

constexpr int kRows = 8192, kIn = 4096, kOut = 14336, kLayers = 16;
constexpr size_t kWeight = size_t(kIn) * kOut;

// ---- collectives ----

enum class Way { kNone, kNccl, kNcclCopy, kCopy };
static const char* Name(Way way) {
  const char* names[] = {"none", "nccl", "nccl_copy_engine", "copy_engine"};
  return names[int(way)];
}

struct Case {
  Way gather, scatter;
  int ctas = 0, sm_target = 0;  // 0: the library's own choice
  int sum_blocks = 16;          // blocks of the kernel that adds the pulled chunks
  bool fan_out = false;         // own pulls: one stream per peer, instead of one peer after the other
  double portion = 1;           // own pulls: part of every chunk; near 0 only dependencies and protocol remain
};

// ---- one rank's step ----

// The state that all cases share: streams, events, buffers and the peers' views of them.
struct Rank : Edges {
  explicit Rank(const World& w)
      : Edges(4096),
        world(w),
        chunk(kWeight / w.size),
        x(size_t(kRows) * kIn, 1 + w.rank),
        y(size_t(kRows) * kOut),
        shard(chunk, 100 + w.rank),
        reduced(chunk),
        staging(2 * kWeight),
        workspace(kWorkspace),
        flags(1 << 19) {
    MakeStreams();
    for (uint32_t i : {0u, 1u}) {
      weight[i] = std::make_unique<Buffer<bf16>>(kWeight, 200 + i);
      gradient[i] = std::make_unique<Buffer<bf16>>(kWeight, GradientSeed(world.rank, i));
      gradients[i] = std::make_unique<PeerMemory<bf16>>(world, gradient[i]->data());
    }
    Check(cudaMemset(flags.data(), 0, flags.size() * 4), "clear the flags");
    shards = std::make_unique<PeerMemory<bf16>>(world, shard.data());
    peer_flags = std::make_unique<PeerMemory<uint32_t>>(world, flags.data());
    barrier = std::make_unique<PeerBarrier>(world);
    Check(cublasLtCreate(&cublas), "make a cuBLASLt handle");
    Check(cudaDeviceSynchronize(), "prepare a rank");
    world.Barrier();  // no peer may write a flag before it is cleared
  }
  // Collective: no rank may free memory that another rank still maps.
  void Close() {
    gradients[0].reset(), gradients[1].reset(), shards.reset(), peer_flags.reset();
    barrier->Close();
  }
  enum Kind { kReady, kDone };
  static uint32_t GradientSeed(int rank, int slot) { return 300 + 10 * rank + slot; }
  static int Word(Kind kind, int slot, int from) { return (kind * 2 + slot) * kMaxRanks + from; }
  uint32_t* Mine(Kind kind, int slot, int from) { return flags.data() + Word(kind, slot, from); }
  uint32_t* Theirs(int peer, Kind kind, int slot) { return peer_flags->at(peer) + Word(kind, slot, world.rank); }
  std::vector<int> Peers() const {  // each rank starts with another one, to spread the load
    std::vector<int> peers;
    for (int i = 1; i < world.size; ++i) peers.push_back((world.rank + i) % world.size);
    return peers;
  }

  void MakeStreams() {
    const auto [low, high] = Priorities();
    main = Stream(low), gather = Stream(high), scatter = Stream(high);
    for (int r = 0; r < world.size; ++r) gather_pull.push_back(Stream(high)), scatter_pull.push_back(Stream(high));
  }

  const World& world;
  size_t chunk;
  Buffer<bf16> x, y, shard, reduced, staging;
  Buffer<uint8_t> workspace;
  Buffer<uint32_t> flags;
  std::unique_ptr<Buffer<bf16>> weight[2], gradient[2];
  std::unique_ptr<PeerMemory<bf16>> gradients[2], shards;
  std::unique_ptr<PeerMemory<uint32_t>> peer_flags;
  std::unique_ptr<PeerBarrier> barrier;
  cudaStream_t main, gather, scatter;
  std::vector<cudaStream_t> gather_pull, scatter_pull;
  cublasLtHandle_t cublas;
};

class Step {
 public:
  Step(Rank& r, const Case& c)
      : r_(r),
        case_(c),
        forward_(r.cublas, {.m = kOut, .n = kRows, .k = kIn, .sm_target = c.sm_target}),
        backward_(r.cublas, {.m = kOut, .n = kIn, .k = kRows, .op_b = CUBLAS_OP_T, .sm_target = c.sm_target}) {
    const bool symmetric = c.gather == Way::kNcclCopy;
    if (symmetric || c.gather == Way::kNccl) gather_comm_ = std::make_unique<Communicator>(r.world, c.ctas, symmetric);
    if (c.scatter == Way::kNccl) scatter_comm_ = std::make_unique<Communicator>(r.world, c.ctas, false);
    for (int i : {0, 1}) weight_[i] = r.weight[i]->data();
    shard_ = r.shard.data();
    if (!symmetric) return;
    for (int i = 0; i < 3; ++i) windows_[i] = std::make_unique<Window>(*gather_comm_, i < 2 ? kWeight : r.chunk);
    weight_[0] = windows_[0]->data, weight_[1] = windows_[1]->data, shard_ = windows_[2]->data;
    Check(cudaMemcpy(shard_, r.shard.data(), r.chunk * 2, cudaMemcpyDeviceToDevice), "copy the shard to its window");
  }

  void Issue(bool products, bool collectives) {
    const bool gathers = collectives && case_.gather != Way::kNone,
               scatters = collectives && case_.scatter != Way::kNone;
    cudaEvent_t used[kLayers], scattered[kLayers];
    r_.Restart();
    r_.Wait(r_.gather, r_.main), r_.Wait(r_.scatter, r_.main);
    if (gathers && case_.gather == Way::kCopy) r_.barrier->Issue(0, r_.gather);
    for (int l = 0; l < kLayers; ++l) {
      if (gathers) {
        if (l >= 2) r_.Wait(r_.gather, used[l - 2]);  // waits for the last reader of the buffer
        Gather(l & 1);
        r_.Wait(r_.main, r_.gather);
      }
      if (scatters && l >= 2) r_.Wait(r_.main, scattered[l - 2]);
      if (products) Multiply(l & 1);
      used[l] = r_.Record(r_.main);
      if (!scatters) continue;
      r_.Wait(r_.scatter, used[l]);
      Scatter(l & 1);
      scattered[l] = r_.Record(r_.scatter);
    }
    if (gathers && case_.gather == Way::kCopy) r_.barrier->Issue(1, r_.gather);
    r_.Wait(r_.main, r_.gather), r_.Wait(r_.main, r_.scatter);
  }
  const bf16* weight(int slot) const { return weight_[slot]; }

 private:
  void Multiply(int slot) {
    forward_.Run(weight_[slot], r_.x.data(), r_.y.data(), r_.workspace.data(), r_.main);               // [rows, out]
    backward_.Run(r_.y.data(), r_.x.data(), r_.gradient[slot]->data(), r_.workspace.data(), r_.main);  // [in, out]
  }

  void Gather(int slot) {
    if (case_.gather != Way::kCopy) {
      Check(ncclAllGather(shard_, weight_[slot], r_.chunk, ncclBfloat16, *gather_comm_, r_.gather), "all-gather");
      return;
    }
    for (int p : r_.Peers()) {
      cudaStream_t stream = case_.fan_out ? r_.gather_pull[p] : r_.gather;
      if (case_.fan_out) r_.Wait(stream, r_.gather);
      Copy(weight_[slot] + p * r_.chunk, r_.shards->at(p), stream);
    }
    Copy(weight_[slot] + r_.world.rank * r_.chunk, shard_, r_.gather);
    for (int p : r_.Peers())
      if (case_.fan_out) r_.Wait(r_.gather, r_.gather_pull[p]);
  }

  void Copy(bf16* to, const bf16* from, cudaStream_t stream) {
    Check(cudaMemcpyAsync(to, from, Portion() * sizeof(bf16), cudaMemcpyDeviceToDevice, stream), "copy a chunk");
  }

  size_t Portion() const { return std::max<size_t>(8, size_t(r_.chunk * case_.portion) / 8 * 8); }

  void Scatter(int slot) {
    if (case_.scatter != Way::kCopy) {
      Check(ncclReduceScatter(r_.gradient[slot]->data(), r_.reduced.data(), r_.chunk, ncclBfloat16, ncclSum,
                              *scatter_comm_, r_.scatter),
            "reduce-scatter");
      return;
    }
    MemoryOps ready;
    for (int p : r_.Peers()) ready.Write(r_.Theirs(p, Rank::kReady, slot), 1);
    ready.Issue(r_.scatter);
    Chunks chunks = {};
    chunks.part[r_.world.rank] = r_.gradient[slot]->data() + r_.world.rank * r_.chunk;
    for (int p : r_.Peers()) chunks.part[p] = Pull(p, slot);
    for (int p : r_.Peers())
      if (case_.fan_out) r_.Wait(r_.scatter, r_.scatter_pull[p]);
    SumChunks<<<case_.sum_blocks, 512, 0, r_.scatter>>>(chunks, r_.world.size, r_.reduced.data(), Portion());
    Check(cudaGetLastError(), "launch the sum of chunks");
    MemoryOps done;  // G may be rewritten once every consumer has pulled its chunk
    for (int p : r_.Peers()) done.Take(r_.Mine(Rank::kDone, slot, p));
    done.Issue(r_.scatter);
  }

  // Copies this rank's chunk of peer p's gradient into staging.
  const bf16* Pull(int p, int slot) {
    bf16* to = r_.staging.data() + slot * kWeight + p * r_.chunk;
    cudaStream_t stream = case_.fan_out ? r_.scatter_pull[p] : r_.scatter;
    MemoryOps ready, done;
    if (case_.fan_out) r_.Wait(stream, r_.scatter);
    ready.Take(r_.Mine(Rank::kReady, slot, p));
    ready.Issue(stream);
    Copy(to, r_.gradients[slot]->at(p) + r_.world.rank * r_.chunk, stream);
    done.Write(r_.Theirs(p, Rank::kDone, slot), 1);
    done.Issue(stream);
    return to;
  }

  Rank& r_;
  Case case_;
  Product forward_, backward_;
  std::unique_ptr<Communicator> gather_comm_, scatter_comm_;  // before the windows, which must be destroyed first
  std::unique_ptr<Window> windows_[3];
  bf16 *weight_[2], *shard_;
};

// ---- measuring and checking ----

// Returns the time of a step in steady state. Replays of `heater` and of the step itself settle the chip, and then
// twelve replays are timed. A single replay would be wrong: these products run at the power limit, and after a pause
// they run up to 10 % faster.
static float SettledMs(Rank& r, cudaGraphExec_t graph, cudaGraphExec_t heater) {
  constexpr int kHeat = 6, kSettle = 6, kTimed = 12;
  return SettledMs(r.world, r.main, kHeat + kSettle, kTimed,
                   [&](int i) { Check(cudaGraphLaunch(i < kHeat ? heater : graph, r.main), "replay a step"); });
}

// Returns the medians of three rounds over the bodies' graphs. The first body is the products without collectives. A
// time is that of the slowest rank, because a synchronous job waits for it.
static std::vector<float> MediansMs(Rank& r, const std::vector<std::function<void()>>& bodies) {
  std::vector<cudaGraphExec_t> graphs;
  for (const auto& body : bodies) graphs.push_back(Capture(r.main, body));
  std::vector<std::vector<float>> times(bodies.size());
  for (int round = 0; round < 3; ++round)
    for (size_t b = 0; b < bodies.size(); ++b) times[b].push_back(SettledMs(r, graphs[b], graphs[0]));
  for (auto graph : graphs) Check(cudaGraphExecDestroy(graph), "destroy a graph");
  std::vector<float> medians;
  for (const auto& t : times) medians.push_back(Median(t));
  return medians;
}

// Runs collectives on known values. Returns the largest difference from the expected values, divided by the tolerance,
// over samples of every chunk; above 1 is wrong.
static float CollectiveError(Rank& r, Step& step, const Case& c) {
  r.reduced.Poison();
  for (int i : {0, 1})
    FillNormal<<<1024, 256>>>(r.gradient[i]->data(), kWeight, Rank::GradientSeed(r.world.rank, i), 0.f, 1.f);
  Check(cudaDeviceSynchronize(), "refill the gradients");
  r.world.Barrier();
  step.Issue(false, true);
  Check(cudaDeviceSynchronize(), "run the collectives once");
  float worst = 0;
  const auto see = [&](const bf16* got, float expected, float tolerance) {
    bf16 value;
    Check(cudaMemcpy(&value, got, sizeof value, cudaMemcpyDeviceToHost), "fetch a sample");
    const float error = std::abs(float(value) - expected) / tolerance;
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  };
  for (size_t i = 0; i < r.chunk; i += r.chunk / 61) {
    float sum = 0;
    const size_t at = r.world.rank * r.chunk + i;
    for (int p = 0; p < r.world.size; ++p) {
      if (c.gather != Way::kNone) see(step.weight(1) + p * r.chunk + i, float(bf16(Normal(i, 100 + p))), 1e-6f);
      sum += float(bf16(Normal(at, Rank::GradientSeed(p, 1))));
    }
    if (c.scatter != Way::kNone) see(r.reduced.data() + i, sum, 0.02f * std::max(1.f, std::abs(sum)));
  }
  return r.world.Max(worst);
}

// After a full step with own pulls, the last layer's sum must equal NCCL's sum of the same gradients.
static float StepError(Rank& r, Step& step) {
  Buffer<bf16> expected(r.chunk);
  Communicator comm(r.world, 0, false);
  step.Issue(true, true);
  Check(cudaDeviceSynchronize(), "run a step");
  Check(ncclReduceScatter(r.gradient[(kLayers - 1) & 1]->data(), expected.data(), r.chunk, ncclBfloat16, ncclSum, comm,
                          r.main),
        "reduce-scatter");
  Check(cudaDeviceSynchronize(), "run the check's reduce-scatter");
  return r.world.Max(float(RelativeError(r.reduced.Host(), expected.Host())));
}

static void Measure(Rank& r, const Case& c) {
  Step all(r, {Way::kNone, Way::kNone}), step(r, c);
  const float error = c.portion == 1 ? CollectiveError(r, step, c) : 0;
  std::vector<std::function<void()>> bodies = {[&] { all.Issue(true, false); }, [&] { step.Issue(false, true); },
                                               [&] { step.Issue(true, true); }};
  if (c.sm_target) bodies.push_back([&] { step.Issue(true, false); });
  const auto ms = MediansMs(r, bodies);
  if (r.world.rank != 0) return;
  std::printf(
      "{\"probe\":\"overlap\",\"ranks\":%d,\"gather\":\"%s\",\"scatter\":\"%s\",\"ctas\":%d,\"sm_target\":%d,"
      "\"sum_blocks\":%d,\"fan_out\":%d,\"portion\":%g,\"products_ms\":%.2f,\"products_at_target_ms\":%.2f,"
      "\"collectives_ms\":%.2f,\"both_ms\":%.2f,\"both_over_max\":%.3f,\"both_over_sum\":%.3f,\"error\":%.2g}\n",
      r.world.size, Name(c.gather), Name(c.scatter), c.ctas, c.sm_target, c.sum_blocks, c.fan_out, c.portion, ms[0],
      c.sm_target ? ms[3] : ms[0], ms[1], ms[2], ms[2] / std::max(ms[0], ms[1]), ms[2] / (ms[0] + ms[1]), error);
  std::fflush(stdout);
}

// Replays steps without a host barrier between them, and then checks a step.
static void Endure(Rank& r, const Case& c, int replays) {
  Step step(r, c);
  cudaGraphExec_t graph = Capture(r.main, [&] { step.Issue(true, true); });
  for (int i = 0; i < replays; ++i) Check(cudaGraphLaunch(graph, r.main), "replay a step");
  Check(cudaStreamSynchronize(r.main), "replay steps");
  Check(cudaGraphExecDestroy(graph), "destroy a graph");
  const float error = StepError(r, step);
  if (r.world.rank == 0)
    std::printf("{\"probe\":\"overlap_endurance\",\"ranks\":%d,\"replays\":%d,\"error_against_nccl\":%.2g}\n",
                r.world.size, replays, error);
  std::fflush(stdout);
}

static std::vector<Case> PullCases() {
  std::vector<Case> cases;
  for (bool fan_out : {false, true}) cases.push_back({.gather = Way::kCopy, .scatter = Way::kCopy, .fan_out = fan_out});
  cases.push_back({.gather = Way::kCopy, .scatter = Way::kCopy, .sum_blocks = 64});
  for (Way gather : {Way::kNone, Way::kCopy})
    for (Way scatter : {Way::kNone, Way::kCopy})
      if (gather != scatter || gather == Way::kCopy)
        cases.push_back({.gather = gather, .scatter = scatter, .portion = 1e-4});
  return cases;
}

static std::vector<Case> Cases(int processors) {
  std::vector<Case> cases = {{Way::kNccl, Way::kNccl}};
  for (int ctas : {2, 4, 8}) cases.push_back({Way::kNccl, Way::kNccl, ctas, processors - 2 * ctas});
  for (Way way : {Way::kNccl, Way::kNcclCopy, Way::kCopy}) cases.push_back({way, Way::kNone});
  for (Way way : {Way::kNccl, Way::kCopy}) cases.push_back({Way::kNone, way});
  cases.push_back({Way::kNcclCopy, Way::kNccl, 4, processors - 4});
  for (int ctas : {2, 4, 8}) cases.push_back({Way::kCopy, Way::kNccl, ctas, processors - ctas});
  cases.push_back({Way::kCopy, Way::kNccl, 4, 0});
  return cases;
}

// Returns the cases of a run: all, own pulls only, or a few on data of zeros. With x = 0 the products draw far less
// power. This shows whether a step is limited by power or by multiprocessors and bandwidth.
static std::vector<Case> Chosen(const std::string& mode, int processors) {
  if (mode == "calm")
    return {{Way::kNccl, Way::kNccl},
            {Way::kNccl, Way::kNccl, 4, processors - 8},
            {Way::kCopy, Way::kNone},
            {Way::kCopy, Way::kCopy},
            {Way::kCopy, Way::kNccl, 4, processors - 4}};
  auto cases = PullCases();
  if (mode == "pulls") return cases;
  for (const Case& c : Cases(processors)) cases.push_back(c);
  return cases;
}

// overlap [all | pulls | calm]
int main(int argc, char** argv) {
  return RunOnRanks("overlap", [&](const World& world) {
    const std::string mode = argc > 1 ? argv[1] : "all";
    Rank rank(world);
    cudaDeviceProp properties;
    Check(cudaGetDeviceProperties(&properties, world.rank), "read the device's properties");
    if (mode == "calm") Check(cudaMemset(rank.x.data(), 0, rank.x.size() * sizeof(bf16)), "calm the data");
    for (const Case& c : Chosen(mode, properties.multiProcessorCount)) Measure(rank, c);
    if (mode == "all") Endure(rank, {Way::kCopy, Way::kCopy}, 300);
    rank.Close();
  });
}
