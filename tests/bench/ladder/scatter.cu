// Probe: an own reduce-scatter by direct loads from the peers' memory (scatter.h) against NCCL's, on 2, 4 or 8 GPUs of
// one host with one process per GPU. Gradients are bf16 and are added in f32; the own kernel writes f32, or adds to an
// f32 gradient, or also sums the squares, on 4 to 32 blocks. NCCL sends bf16 or f32, by its default kernels and by its
// symmetric kernel ReduceScatter_LD, with a communicator's own number of CTAs, and with 4 to 32. Each is timed without
// other work, and in a graph with products that take as long as the backward pass of a block of Llama 8B. NVLink
// multicast stays off.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "block.h"
#include "scatter.h"
#include "streams.h"

// kNcclLoads: NCCL's symmetric kernel that loads from the peers; both buffers have to be in windows.
enum class Way { kOwn, kNccl, kNcclLoads };
static const char* Name(Way way) {
  const char* names[] = {"own", "nccl", "nccl_direct_loads"};
  return names[int(way)];
}

// The kind of result that a call leaves. NCCL writes its wire type, and a pass after it adds to the gradient and sums
// the squares.
enum class Result { kWrite, kAdd, kAddSquares };
static const char* Name(Result result) {
  const char* names[] = {"write", "add", "add_and_squares"};
  return names[int(result)];
}

struct Case {
  Way way;
  Result result = Result::kWrite;
  int blocks = 0;     // 0: NCCL's own choice
  bool wide = false;  // gradients are f32, in memory and on the wire
};

// ---- the state that all cases share ----

struct Rank : Edges {
  static constexpr int kProducts = 9;  // 8.7 TFLOP, as the backward pass of a block has
  explicit Rank(const World& w)
      : Edges(256),
        world(w),
        input(size_t(kRows) * kWidth, 1 + w.rank),
        weight(size_t(kWidth) * kHidden, 20),
        output(size_t(kRows) * kHidden),
        workspace(kWorkspace),
        gradient(kBlock),
        wide_gradient(kBlock),
        received(kBlock / w.size),
        reduced(kBlock / w.size),
        words(1 << 19),
        partial(1024),
        square_sum(1),
        ended(1) {
    const auto [low, high] = Priorities();
    main = Stream(low), lane = Stream(high);
    Check(cublasLtCreate(&cublas), "make a cuBLASLt handle");
    product = std::make_unique<Product>(cublas, ProductShape{.m = kHidden, .n = kRows, .k = kWidth});
    Check(cudaMemset(words.data(), 0, words.size() * 4), "clear the barrier's words");
    Check(cudaMemset(ended.data(), 0, 4), "clear the count of ended blocks");
    Check(cudaDeviceSynchronize(), "prepare a rank");
    gradients = std::make_unique<PeerMemory<bf16>>(world, gradient.data());
    peer_words = std::make_unique<PeerMemory<uint32_t>>(world, words.data());
    world.Barrier();  // no peer may write a word before it is cleared
  }
  // Collective: no rank may free memory that another rank still maps.
  void Close() {
    gradients.reset(), peer_words.reset();
    world.Barrier();
  }
  // Returns the communicator with a number of CTAs. Collective.
  ncclComm_t Comm(int ctas) {
    auto& comm = communicators[ctas];
    if (!comm) comm = std::make_unique<Communicator>(world, ctas, false);
    return *comm;
  }
  void Multiply() {
    product->Run(weight.data(), input.data(), output.data(), workspace.data(), main);  // [rows, hidden]
  }
  BarrierWords Words() const {
    BarrierWords all = {{}, world.rank, world.size};
    for (int p = 0; p < world.size; ++p) all.of[p] = peer_words->at(p);
    return all;
  }
  SquareSum Squares() const { return {partial.data(), ended.data(), square_sum.data()}; }

  const World& world;
  Buffer<bf16> input, weight, output;
  Buffer<uint8_t> workspace;
  Buffer<bf16> gradient;
  Buffer<float> wide_gradient, received, reduced;
  Buffer<uint32_t> words;
  Buffer<double> partial, square_sum;
  Buffer<uint32_t> ended;
  std::unique_ptr<PeerMemory<bf16>> gradients;
  std::unique_ptr<PeerMemory<uint32_t>> peer_words;
  std::map<int, std::unique_ptr<Communicator>> communicators;
  std::unique_ptr<Product> product;
  cudaStream_t main, lane;
  cublasLtHandle_t cublas;
};

// ---- one call ----

__host__ __device__ constexpr uint32_t GradientSeed(int rank, int fill) { return 300 + 16 * fill + rank; }
constexpr uint32_t kStartSeed = 200;

class Call {
 public:
  Call(Rank& r, const Case& c, size_t elements) : r_(r), case_(c), chunk_(elements / r.world.size / 8 * 8) {
    source_ = c.wide ? static_cast<void*>(r.wide_gradient.data()) : r.gradient.data();
    result_ = c.way == Way::kOwn ? r.reduced.data() : r.received.data();
    if (c.way == Way::kOwn) return;
    comm_ = r.Comm(c.blocks);
    if (c.way != Way::kNcclLoads) return;
    const size_t parts = c.wide ? 2 : 1;  // a window has elements of 2 bytes
    windows_[0] = std::make_unique<Window>(comm_, parts * chunk_ * r.world.size);
    windows_[1] = std::make_unique<Window>(comm_, parts * chunk_);
    source_ = windows_[0]->data, result_ = windows_[1]->data;
  }
  size_t chunk() const { return chunk_; }
  const Case& kind() const { return case_; }
  bool adds() const { return case_.result != Result::kWrite; }
  // The result: f32, or bf16 if NCCL wrote it and no pass followed.
  const void* result() const { return adds() ? r_.reduced.data() : result_; }
  bool narrow_result() const { return case_.way != Way::kOwn && !adds() && !case_.wide; }

  // Fills the gradient with values of a seed, on a stream.
  void Fill(int fill, cudaStream_t stream) {
    const uint32_t seed = GradientSeed(r_.world.rank, fill);
    const size_t n = chunk_ * r_.world.size;
    if (case_.wide)
      FillNormal<<<1024, 256, 0, stream>>>(static_cast<float*>(source_), n, seed, 0.f, 1.f);
    else
      FillNormal<<<1024, 256, 0, stream>>>(static_cast<bf16*>(source_), n, seed, 0.f, 1.f);
    Check(cudaGetLastError(), "fill a gradient");
  }
  // Poisons the results, or gives the gradient that is added to its first values.
  void Restart() {
    r_.received.Poison(), r_.reduced.Poison(), r_.square_sum.Poison();
    if (windows_[1]) Check(cudaMemset(result_, 0xff, chunk_ * (case_.wide ? 4 : 2)), "poison a window");
    if (adds()) FillNormal<<<1024, 256>>>(r_.reduced.data(), chunk_, kStartSeed, 0.f, 1.f);
    Check(cudaDeviceSynchronize(), "restart a result");
  }

  void Issue(cudaStream_t stream) {
    if (case_.way == Way::kOwn) return Launch(stream);
    Check(ncclReduceScatter(source_, result_, chunk_, case_.wide ? ncclFloat32 : ncclBfloat16, ncclSum, comm_, stream),
          "reduce-scatter");
    if (!adds()) return;
    if (case_.wide)
      AddPass<<<kPassBlocks, 512, 0, stream>>>(static_cast<const float*>(result_), r_.reduced.data(), chunk_,
                                               r_.Squares());
    else
      AddPass<<<kPassBlocks, 512, 0, stream>>>(static_cast<const bf16*>(result_), r_.reduced.data(), chunk_,
                                               r_.Squares());
    Check(cudaGetLastError(), "launch the pass after a reduce-scatter");
  }

 private:
  static constexpr int kPassBlocks = 528;  // four per multiprocessor
  void Launch(cudaStream_t stream) {
    switch (r_.world.size) {
      case 2:
        return LaunchOn<2>(stream);
      case 4:
        return LaunchOn<4>(stream);
      case 8:
        return LaunchOn<8>(stream);
    }
    throw std::logic_error("the own reduce-scatter is not compiled for this number of ranks");
  }
  template <int kRanks>
  void LaunchOn(cudaStream_t stream) {
    auto kernel = ReduceScatter<kRanks, false, false>;
    if (case_.result == Result::kAdd) kernel = ReduceScatter<kRanks, true, false>;
    if (case_.result == Result::kAddSquares) kernel = ReduceScatter<kRanks, true, true>;
    Chunks chunks = {};
    for (int p = 0; p < kRanks; ++p) chunks.part[p] = r_.gradients->at(p) + r_.world.rank * chunk_;
    kernel<<<case_.blocks, kScatterThreads, 0, stream>>>(chunks, r_.Words(), r_.reduced.data(), chunk_, r_.Squares());
    Check(cudaGetLastError(), "launch the own reduce-scatter");
  }

  Rank& r_;
  Case case_;
  size_t chunk_;
  void *source_ = nullptr, *result_ = nullptr;
  ncclComm_t comm_ = nullptr;
  std::unique_ptr<Window> windows_[2];
};

// ---- checking ----

struct Counted {
  unsigned long long wrong;
  double squares;
};

// Counts the elements that differ from their definition by more than the tolerance, and sums the squares of all. The
// definition: for each fill of the gradients the sum of the ranks' values in rank order in f32, added to the start.
template <typename Out>
__global__ void CountWrong(const Out* out, size_t n, size_t first, int ranks, int fills, bool wide, bool adds,
                           float tolerance, Counted* counted) {
  double squares = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    float expected = adds ? Normal(i, kStartSeed) : 0.f;
    for (int fill = 0; fill < fills; ++fill) {
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const float value = Normal(first + i, GradientSeed(rank, fill));
        sum = __fadd_rn(sum, wide ? value : float(bf16(value)));  // never fused with the value's product
      }
      expected = adds ? __fadd_rn(expected, sum) : sum;
    }
    const float got = float(out[i]);
    if (!(fabsf(got - expected) <= tolerance)) atomicAdd(&counted->wrong, 1ull);
    squares += double(got) * got;
  }
  atomicAdd(&counted->squares, squares);
}

// Returns the largest correct difference. Values are at most 3.47, so sums are at most 3.47 * (ranks + 1). NCCL rounds
// to its wire type at each hop, its symmetric kernel once from f32; the own kernel and the definition are equal.
static float Tolerance(const Rank& r, const Case& c) {
  if (c.way == Way::kOwn) return 0;
  const float largest = 3.47f * float(r.world.size + 1);
  const float roundings = c.wide ? 0.f : c.way == Way::kNccl ? float(r.world.size - 1) : 1.f;
  const float order = float(2 * r.world.size) * std::ldexp(1.f, -24);  // f32 sums in another order
  return largest * (roundings * std::ldexp(1.f, -8) + order);
}

static Counted Count(Rank& r, const Call& call, int fills) {
  Buffer<Counted> counted(1);
  Check(cudaMemset(counted.data(), 0, sizeof(Counted)), "clear a count");
  const size_t first = r.world.rank * call.chunk();
  const float tolerance = Tolerance(r, call.kind());
  if (call.narrow_result())
    CountWrong<<<1024, 256>>>(static_cast<const bf16*>(call.result()), call.chunk(), first, r.world.size, fills,
                              call.kind().wide, call.adds(), tolerance, counted.data());
  else
    CountWrong<<<1024, 256>>>(static_cast<const float*>(call.result()), call.chunk(), first, r.world.size, fills,
                              call.kind().wide, call.adds(), tolerance, counted.data());
  Counted on_host;
  Check(cudaMemcpy(&on_host, counted.data(), sizeof on_host, cudaMemcpyDeviceToHost), "count wrong elements");
  return on_host;
}

static double SquaresOf(const Rank& r) {
  double sum;
  Check(cudaMemcpy(&sum, r.square_sum.data(), sizeof sum, cudaMemcpyDeviceToHost), "fetch a sum of squares");
  return sum;
}

// Runs a call twice on known values. Returns 0 if every element is right, the sum of squares is that of the result (8
// squares are added in f32, which costs 5e-7 of them at most), and both runs gave the same bits of it; else above 1.
static float CallError(Rank& r, Call& call) {
  double last = 0;
  float worst = 0;
  for (int run = 0; run < 2; ++run) {
    call.Restart();
    call.Fill(0, r.main);
    call.Issue(r.main);
    Check(cudaDeviceSynchronize(), "run a call once");
    const Counted counted = Count(r, call, 1);
    worst = std::max(worst, Excess(double(counted.wrong), 0, 0.5));
    if (call.kind().result != Result::kAddSquares) continue;
    const double squares = SquaresOf(r);
    worst = std::max(worst, Excess(squares, counted.squares, 1e-6 * counted.squares));
    if (run == 1 && call.kind().way == Way::kOwn && squares != last) worst = 1e9f;
    last = squares;
  }
  return r.world.Max(worst);
}

__global__ void Delay(uint64_t ns) {
  uint64_t begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < ns);
}

// Rewrites the gradients before each of eight calls without waiting for the host. Ranks are 2 ms late in turns, before
// their fill or before their call. A barrier that admits a rank too early gives sums of old values; one that releases a
// rank too early gives sums of new values, as the next fill follows at once.
static float BarrierError(Rank& r, Call& call) {
  constexpr int kFills = 8;
  call.Restart();
  r.world.Barrier();
  for (int fill = 0; fill < kFills; ++fill) {
    if (fill % r.world.size == r.world.rank) Delay<<<1, 1, 0, r.main>>>(2'000'000);
    call.Fill(fill, r.main);
    if (fill / 2 % r.world.size == r.world.rank) Delay<<<1, 1, 0, r.main>>>(2'000'000);
    call.Issue(r.main);
  }
  Check(cudaDeviceSynchronize(), "run calls with late ranks");
  return r.world.Max(Excess(double(Count(r, call, kFills).wrong), 0, 0.5));
}

// ---- measuring ----

struct Timed {
  std::unique_ptr<Call> call;
  int calls;  // in a graph: together they move a block's gradients
  NodeKernel kernel = {};
  cudaGraphExec_t alone = nullptr, both = nullptr;
  float error = 0;
  std::vector<float> alone_ms = {}, products_ms = {}, both_ms = {}, added_ms = {};
};

// Issues the products, and the calls spread over them on the lane.
static void IssueBoth(Rank& r, Call& call, int calls) {
  r.Restart();
  for (int p = 0, issued = 0; p < Rank::kProducts; ++p) {
    const int due = ((p + 1) * calls + Rank::kProducts - 1) / Rank::kProducts;
    if (issued < due) r.Wait(r.lane, r.main);
    for (; issued < due; ++issued) call.Issue(r.lane);
    r.Multiply();
  }
  r.Wait(r.main, r.lane);
}

static Timed Prepare(Rank& r, const Case& c, size_t elements) {
  Timed timed{std::make_unique<Call>(r, c, elements), int(std::max<size_t>(1, (kBlock + elements / 2) / elements))};
  timed.error = CallError(r, *timed.call);
  if (c.way == Way::kOwn && c.result == Result::kAdd) timed.error = std::max(timed.error, BarrierError(r, *timed.call));
  cudaGraph_t graph = CaptureGraph(r.main, [&] { timed.call->Issue(r.main); });
  timed.kernel = KernelOf(graph, "AddPass");
  Check(cudaGraphDestroy(graph), "destroy a captured graph");
  timed.alone = Capture(r.main, [&] {
    for (int i = 0; i < timed.calls; ++i) timed.call->Issue(r.main);
  });
  timed.both = Capture(r.main, [&] { IssueBoth(r, *timed.call, timed.calls); });
  return timed;
}

// Replays the products and both in turns, without a pause, and gives the case a time of each for every pair, on the
// slowest rank. In turns, because the clock of a chip at its power limit swings by 10 % within a second.
static void TimePairs(Rank& r, cudaGraphExec_t products, Timed& timed) {
  constexpr int kSettle = 2, kPairs = 12;
  std::vector<cudaEvent_t> events(2 * kPairs + 1);
  for (cudaEvent_t& event : events) Check(cudaEventCreate(&event), "create an event");
  r.world.Barrier();
  for (int pair = -kSettle; pair < kPairs; ++pair) {
    if (pair == 0) Check(cudaEventRecord(events[0], r.main), "record the start");
    Check(cudaGraphLaunch(products, r.main), "replay products");
    if (pair >= 0) Check(cudaEventRecord(events[2 * pair + 1], r.main), "record products");
    Check(cudaGraphLaunch(timed.both, r.main), "replay both");
    if (pair >= 0) Check(cudaEventRecord(events[2 * pair + 2], r.main), "record both");
  }
  Check(cudaEventSynchronize(events.back()), "run timed pairs");
  const auto between = [&](int event) {
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, events[event], events[event + 1]), "read a time");
    return r.world.Max(ms);
  };
  for (int pair = 0; pair < kPairs; ++pair) {
    timed.products_ms.push_back(between(2 * pair));
    timed.both_ms.push_back(between(2 * pair + 1));
  }
  for (cudaEvent_t event : events) Check(cudaEventDestroy(event), "destroy an event");
}

static void Round(Rank& r, cudaGraphExec_t products, std::vector<Timed>& cases) {
  const auto time = [&](cudaGraphExec_t graph, int settle, int timed) {
    return SettledMs(r.world, r.main, settle, timed, [&](int) { Check(cudaGraphLaunch(graph, r.main), "replay"); });
  };
  for (Timed& t : cases) t.alone_ms.push_back(time(t.alone, 3, 8));
  time(products, 40, 1);  // lets the chip's power settle
  for (Timed& t : cases) {
    const size_t before = t.products_ms.size();
    TimePairs(r, products, t);
    const auto median = [&](const std::vector<float>& ms) {
      return Median(std::vector(ms.begin() + before, ms.end()));
    };
    t.added_ms.push_back(median(t.both_ms) - median(t.products_ms));
  }
}

static void Print(const Rank& r, const Timed& t) {
  if (r.world.rank != 0) return;
  const Case& c = t.call->kind();
  const double call_us = 1e3 * Median(t.alone_ms) / t.calls, bytes = (c.wide ? 4. : 2.) * double(t.call->chunk());
  const float added = Median(t.added_ms), products = Median(t.products_ms), both = Median(t.both_ms);
  std::printf(
      "{\"probe\":\"scatter\",\"ranks\":%d,\"way\":\"%s\",\"result\":\"%s\",\"wire\":\"%s\",\"blocks\":%d,"
      "\"kernel\":\"%s\",\"kernel_blocks\":%u,\"elements\":%zu,\"calls\":%d,\"call_us\":%.2f,\"into_rank_gb_s\":%.1f,"
      "\"products_ms\":%.3f,\"both_ms\":%.3f,\"added_ms\":%.3f,\"added_min_ms\":%.3f,\"added_max_ms\":%.3f,"
      "\"both_over_products\":%.4f,\"added_ms_per_gb\":%.3f,\"error\":%.2g}\n",
      r.world.size, Name(c.way), Name(c.result), c.wide ? "f32" : "bf16", c.blocks, t.kernel.name.c_str(),
      t.kernel.blocks, t.call->chunk() * r.world.size, t.calls, call_us, (r.world.size - 1) * bytes / call_us * 1e-3,
      products, both, added, *std::min_element(t.added_ms.begin(), t.added_ms.end()),
      *std::max_element(t.added_ms.begin(), t.added_ms.end()), both / products,
      added / (r.world.size * bytes * t.calls * 1e-9), t.error);
  std::fflush(stdout);
}

static std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (Result result : {Result::kWrite, Result::kAdd, Result::kAddSquares})
    for (int blocks : {4, 8, 16, 32}) cases.push_back({Way::kOwn, result, blocks});
  for (bool wide : {false, true}) {
    for (int ctas : {0, 4, 8, 32}) cases.push_back({Way::kNccl, Result::kWrite, ctas, wide});
    cases.push_back({Way::kNccl, Result::kAddSquares, 0, wide});
  }
  for (int ctas : {0, 4, 8, 16, 32}) cases.push_back({Way::kNcclLoads, Result::kWrite, ctas});
  cases.push_back({Way::kNcclLoads, Result::kAddSquares, 8});
  cases.push_back({Way::kNcclLoads, Result::kWrite, 8, true});
  return cases;
}

static void MeasureSize(Rank& r, cudaGraphExec_t products, size_t elements) {
  std::vector<Timed> cases;
  for (const Case& c : Cases()) cases.push_back(Prepare(r, c, elements));
  for (int round = 0; round < 3; ++round) Round(r, products, cases);
  for (Timed& t : cases) {
    t.error = std::max(t.error, CallError(r, *t.call));  // after thousands of replays
    Print(r, t);
    for (auto graph : {t.both, t.alone}) Check(cudaGraphExecDestroy(graph), "destroy a graph");
  }
  r.world.Barrier();  // the calls free windows, which their peers may still read
}

static void MeasureAll(const World& world) {
  if (world.size != 2 && world.size != 4 && world.size != 8)
    throw std::runtime_error("takes 2, 4 or 8 ranks, got " + std::to_string(world.size));
  Rank rank(world);
  rank.Multiply();  // loads the library before the capture
  Check(cudaDeviceSynchronize(), "run a product");
  cudaGraphExec_t products = Capture(rank.main, [&] {
    for (int p = 0; p < Rank::kProducts; ++p) rank.Multiply();
  });
  for (size_t elements : {kBlock, size_t(4) << 20, size_t(64) << 20}) MeasureSize(rank, products, elements);
  Check(cudaGraphExecDestroy(products), "destroy a graph");
  rank.Close();
}

// scatter
int main() {
  // Where both buffers are in windows, NCCL takes this kernel; calls on other memory are not affected.
  setenv("NCCL_SYM_KERNEL", "ReduceScatter_LD", 0);
  return RunOnRanks("scatter", MeasureAll);
}
