// Probe: what the collectives of FSDP cost in a step of Llama 8B, by bucket size, wire type and transport, in one CUDA
// graph with one process per GPU. The forward pass over 32 blocks gathers the weights of each block (436 MB in bf16, at
// most two blocks ahead) and keeps them. The backward pass reduce-scatters the gradients. The collectives run on two
// lanes that overlap with the computation. NVLink multicast stays off.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "block.h"
#include "communicator.h"
#include "streams.h"

// kExchange: every rank sends bf16 chunks to their owners, which add them in f32 in rank order.
enum class Way { kNone, kNccl, kNcclCopy, kPull, kExchange };
static const char* Name(Way way) {
  const char* names[] = {"none", "nccl", "nccl_copy_engine", "copy_engine", "nccl_exchange"};
  return names[int(way)];
}

// What one call moves. kTensors is one NCCL group with a call per tensor of a block.
enum class Cut { kTensors, kWhole, kQuarters, kTwoBlocks };
static const char* Name(Cut cut) {
  const char* names[] = {"tensors_of_a_block", "a_block", "a_quarter_of_a_block", "two_blocks"};
  return names[int(cut)];
}

struct Case {
  Way gather, scatter;
  Cut cut = Cut::kTensors;
  bool wide = false;   // gradients are f32, in memory and on the wire
  int ctas = 0;        // CTAs of NCCL's kernels; 0: NCCL's own choice
  double portion = 1;  // part of every chunk that moves; near 0 only the dependencies remain
  int span() const { return cut == Cut::kTwoBlocks ? 2 : 1; }
  std::vector<Piece> pieces() const {
    if (cut == Cut::kTensors) return BlockTensors();
    if (cut != Cut::kQuarters) return {{0, span() * kBlock}};
    return {{0, kBlock / 4}, {kBlock / 4, kBlock / 4}, {kBlock / 2, kBlock / 4}, {3 * (kBlock / 4), kBlock / 4}};
  }
};

// The state that all cases share.
struct Rank : Edges {
  static constexpr int kSlots = 4;  // blocks whose gradients are in memory: two buckets of the largest size
  Rank(const World& w, int block_count, bool windows)
      : Edges(16 * size_t(block_count)),
        world(w),
        blocks(block_count),
        chunk(kBlock / w.size),
        activations(7 + 2 * w.rank),
        gradients(kSlots * kBlock),
        reduced(2 * chunk),
        staging(2 * kBlock) {
    const auto [low, high] = Priorities();
    main = Stream(low), gather = Stream(high), scatter = Stream(high);
    Check(cublasLtCreate(&cublas), "make a cuBLASLt handle");
    narrow = std::make_unique<Block>(cublas, activations, false);
    wide = std::make_unique<Block>(cublas, activations, true);
    PlaceWeights(windows);
    FillNormal<<<1024, 256>>>(weights, blocks * kBlock, 200, 0.f, kDeviation);
    FillNormal<<<1024, 256>>>(shard, blocks * chunk, ShardSeed(world.rank), 0.f, kDeviation);
    Check(cudaDeviceSynchronize(), "fill the weights");
    barrier = std::make_unique<PeerBarrier>(world);
    if (!windows) shards = std::make_unique<PeerMemory<bf16>>(world, shard);
  }
  static constexpr float kDeviation = 0.02f;
  static uint32_t ShardSeed(int rank) { return 100 + rank; }
  static uint32_t GradientSeed(int rank) { return 300 + rank; }
  void PlaceWeights(bool windows) {
    if (windows) {
      copier = std::make_unique<Communicator>(world, 0, true);
      for (int i : {0, 1}) window[i] = std::make_unique<Window>(*copier, blocks * (i ? chunk : kBlock));
      weights = window[0]->data, shard = window[1]->data;
      return;
    }
    for (int i : {0, 1}) plain[i] = std::make_unique<Buffer<bf16>>(blocks * (i ? chunk : kBlock));
    weights = plain[0]->data(), shard = plain[1]->data();
  }
  // Returns a communicator for a lane. Cases with equal arguments share it. Collective.
  ncclComm_t Lane(char lane, int ctas) {
    auto& comm = communicators[{lane, ctas}];
    if (!comm) comm = std::make_unique<Communicator>(world, ctas, false);
    return *comm;
  }
  // Collective: no rank may free memory that another rank still maps.
  void Close() {
    shards.reset();
    barrier->Close();
  }

  const World& world;
  int blocks;
  size_t chunk;  // elements of a block that one rank owns
  Activations activations;
  Buffer<float> gradients, reduced;
  Buffer<bf16> staging;
  std::unique_ptr<Communicator> copier;  // before the windows, which must be destroyed first
  std::unique_ptr<Window> window[2];
  std::unique_ptr<Buffer<bf16>> plain[2];
  bf16 *weights = nullptr, *shard = nullptr;
  std::unique_ptr<PeerMemory<bf16>> shards;
  std::unique_ptr<PeerBarrier> barrier;
  std::map<std::pair<char, int>, std::unique_ptr<Communicator>> communicators;
  std::unique_ptr<Block> narrow, wide;
  cudaStream_t main, gather, scatter;
  cublasLtHandle_t cublas;
};

// ---- one step ----

class Step {
 public:
  Step(Rank& r, const Case& c) : r_(r), case_(c), n_(r.world.size), pieces_(c.pieces()) {
    if (c.gather == Way::kNccl) gather_comm_ = r.Lane('g', c.ctas);
    if (c.gather == Way::kNcclCopy) gather_comm_ = *r.copier;
    if (c.scatter == Way::kNccl || c.scatter == Way::kExchange) scatter_comm_ = r.Lane('s', c.ctas);
  }
  void Issue(bool products, bool collectives) {
    const bool gathers = collectives && case_.gather != Way::kNone,
               scatters = collectives && case_.scatter != Way::kNone;
    r_.Restart();
    r_.Wait(r_.gather, r_.main), r_.Wait(r_.scatter, r_.main);
    if (gathers && case_.gather == Way::kPull) r_.barrier->Issue(0, r_.gather);
    Forward(products, gathers);
    if (gathers && case_.gather == Way::kPull) r_.barrier->Issue(1, r_.gather);
    Backward(products, scatters);
    r_.Wait(r_.main, r_.gather), r_.Wait(r_.main, r_.scatter);
  }
  // Returns the bytes of the whole tensors that a step's collectives move.
  double Gigabytes() const {
    const double weights = double(r_.blocks) * kBlock * 1e-9 * case_.portion;
    return (case_.gather != Way::kNone ? 2 * weights : 0) +
           (case_.scatter != Way::kNone ? (case_.wide ? 4 : 2) * weights : 0);
  }

 private:
  void Forward(bool products, bool gathers) {
    std::vector<cudaEvent_t> used(r_.blocks);
    for (int b = 0; b < r_.blocks; ++b) {
      if (gathers && b % case_.span() == 0) {
        if (b >= 3) r_.Wait(r_.gather, used[b - 3]);  // at most two blocks ahead of the computation
        Gather(b);
        r_.Wait(r_.main, r_.gather);
      }
      if (products) r_.narrow->Forward(r_.weights + b * kBlock, r_.main);
      used[b] = r_.Record(r_.main);
    }
  }
  void Backward(bool products, bool scatters) {
    const int held = 2 * case_.span();  // blocks from a gradient to the next one in the same memory
    std::vector<cudaEvent_t> scattered(r_.blocks);
    for (int b = r_.blocks; b-- > 0;) {
      const bool first = (b + 1) % case_.span() == 0;  // of its bucket: blocks come from last to first
      if (scatters && first && b + held < r_.blocks) r_.Wait(r_.main, scattered[b + held - case_.span() + 1]);
      if (products) (case_.wide ? r_.wide : r_.narrow)->Backward(r_.weights + b * kBlock, Gradient(b), r_.main);
      if (!scatters || b % case_.span()) continue;
      r_.Wait(r_.scatter, r_.main);
      Scatter(b);
      scattered[b] = r_.Record(r_.scatter);
    }
  }
  char* Gradient(int b) const {
    return reinterpret_cast<char*>(r_.gradients.data()) + (b % (2 * case_.span())) * kBlock * (case_.wide ? 4 : 2);
  }
  size_t Part(const Piece& piece) const {  // elements of a piece that one rank owns
    return std::max<size_t>(8, size_t(piece.size / n_ * case_.portion) / 8 * 8);
  }

  void Gather(int b) {
    bf16* to = r_.weights + b * kBlock;
    const bf16* from = r_.shard + b * r_.chunk;
    if (case_.gather == Way::kPull) return Pull(b, to);
    if (case_.cut == Cut::kTensors) Check(ncclGroupStart(), "begin a group");
    for (const Piece& p : pieces_)
      Check(ncclAllGather(from + p.offset / n_, to + p.offset, Part(p), ncclBfloat16, gather_comm_, r_.gather),
            "all-gather");
    if (case_.cut == Cut::kTensors) Check(ncclGroupEnd(), "end a group");
  }

  // Each rank starts with another source, so that ranks do not all read from one source at once.
  void Pull(int b, bf16* to) {
    for (int i = 0; i < n_; ++i) {
      const int rank = (r_.world.rank + i) % n_;
      for (const Piece& p : pieces_)
        Check(cudaMemcpyAsync(to + p.offset + rank * (p.size / n_), r_.shards->at(rank) + b * r_.chunk + p.offset / n_,
                              Part(p) * sizeof(bf16), cudaMemcpyDeviceToDevice, r_.gather),
              "copy a chunk");
    }
  }

  void Scatter(int b) {
    if (case_.scatter == Way::kExchange) return Exchange(reinterpret_cast<const bf16*>(Gradient(b)));
    const size_t bytes = case_.wide ? 4 : 2;
    if (case_.cut == Cut::kTensors) Check(ncclGroupStart(), "begin a group");
    for (const Piece& p : pieces_)
      Check(ncclReduceScatter(Gradient(b) + p.offset * bytes,
                              reinterpret_cast<char*>(r_.reduced.data()) + p.offset / n_ * bytes, Part(p),
                              case_.wide ? ncclFloat32 : ncclBfloat16, ncclSum, scatter_comm_, r_.scatter),
            "reduce-scatter");
    if (case_.cut == Cut::kTensors) Check(ncclGroupEnd(), "end a group");
  }

  void Exchange(const bf16* gradients) {
    const size_t chunk = case_.span() * r_.chunk;
    Chunks chunks = {};
    Check(ncclGroupStart(), "begin a group");
    for (int rank = 0; rank < n_; ++rank) {
      bf16* to = r_.staging.data() + rank * chunk;
      chunks.part[rank] = to;
      for (const Piece& p : pieces_) {
        const bf16* from = gradients + p.offset + rank * (p.size / n_);
        Check(ncclSend(from, Part(p), ncclBfloat16, rank, scatter_comm_, r_.scatter), "send a chunk");
        Check(ncclRecv(to + p.offset / n_, Part(p), ncclBfloat16, rank, scatter_comm_, r_.scatter), "receive a chunk");
      }
    }
    Check(ncclGroupEnd(), "end a group");
    SumChunks<<<32, 512, 0, r_.scatter>>>(chunks, n_, r_.reduced.data(), size_t(double(chunk) * case_.portion));
    Check(cudaGetLastError(), "launch the sum of chunks");
  }

  Rank& r_;
  Case case_;
  int n_;
  std::vector<Piece> pieces_;
  ncclComm_t gather_comm_ = nullptr, scatter_comm_ = nullptr;
};

// ---- checking and measuring ----

static float GatherError(const Rank& r, const std::vector<Piece>& pieces, int b) {
  float worst = 0;
  for (const Piece& p : pieces)
    for (int rank = 0; rank < r.world.size; ++rank)
      for (size_t part = p.size / r.world.size, i = 0; i < part; i += (part + 12) / 13) {
        const size_t at = b * r.chunk + p.offset / r.world.size + i;
        const float expected = float(bf16(Rank::kDeviation * Normal(at, Rank::ShardSeed(rank))));
        worst = std::max(worst, Excess(Fetch(r.weights + b * kBlock + p.offset + rank * part + i), expected, 1e-6));
      }
  return worst;
}

static float ScatterError(const Rank& r, const std::vector<Piece>& pieces, const Case& c) {
  float worst = 0;
  const bool sum_is_bf16 = c.scatter == Way::kNccl && !c.wide;
  for (const Piece& p : pieces)
    for (size_t part = p.size / r.world.size, i = 0; i < part; i += (part + 12) / 13) {
      double sum = 0;
      for (int rank = 0; rank < r.world.size; ++rank) {
        const float value = Normal(p.offset + r.world.rank * part + i, Rank::GradientSeed(rank));
        sum += c.wide ? value : float(bf16(value));
      }
      const size_t at = p.offset / r.world.size + i;
      const float got =
          sum_is_bf16 ? Fetch(reinterpret_cast<const bf16*>(r.reduced.data()) + at) : Fetch(r.reduced.data() + at);
      worst = std::max(worst, Excess(got, sum, (sum_is_bf16 ? 0.05 : 1e-5) * std::max(1., std::abs(sum))));
    }
  return worst;
}

// Runs collectives on known values. Returns the largest difference from the expected values, divided by the tolerance,
// over samples of every piece; above 1 is wrong. The bucket of block 0 is scattered last, so its sums remain in memory.
static float CollectiveError(Rank& r, const Case& c) {
  Step step(r, c);
  r.reduced.Poison(), r.staging.Poison();
  if (c.gather != Way::kNone) Check(cudaMemset(r.weights, 0xff, r.blocks * kBlock * 2), "poison the weights");
  const uint32_t seed = Rank::GradientSeed(r.world.rank);
  if (c.wide)
    FillNormal<<<1024, 256>>>(r.gradients.data(), 2 * kBlock, seed, 0.f, 1.f);
  else
    FillNormal<<<1024, 256>>>(reinterpret_cast<bf16*>(r.gradients.data()), 2 * kBlock, seed, 0.f, 1.f);
  Check(cudaDeviceSynchronize(), "refill the gradients");
  r.world.Barrier();
  step.Issue(false, true);
  Check(cudaDeviceSynchronize(), "run the collectives once");
  float worst = 0;
  if (c.gather != Way::kNone)
    for (int b : {0, r.blocks - c.span()}) worst = std::max(worst, GatherError(r, c.pieces(), b));
  if (c.scatter != Way::kNone) worst = std::max(worst, ScatterError(r, c.pieces(), c));
  return r.world.Max(worst);
}

struct Timed {
  Case c;
  cudaGraphExec_t both = nullptr, alone = nullptr;
  float error = 0, gigabytes = 0;
  std::vector<float> both_ms = {}, added_ms = {}, products_ms = {}, alone_ms = {};
};

static Timed Prepare(Rank& r, const Case& c) {
  const bool moves = c.gather != Way::kNone || c.scatter != Way::kNone;
  Timed timed{c};
  if (moves) timed.error = c.portion == 1 ? CollectiveError(r, c) : 0;
  Step step(r, c);
  step.Issue(true, moves);  // loads libraries and opens connections before the capture
  Check(cudaDeviceSynchronize(), "run a step");
  timed.both = Capture(r.main, [&] { step.Issue(true, moves); });
  timed.alone = Capture(r.main, [&] { step.Issue(false, moves); });
  timed.gigabytes = float(step.Gigabytes());
  return timed;
}

static float StepMs(Rank& r, cudaGraphExec_t graph) {
  return SettledMs(r.world, r.main, 1, 2, [&](int) { Check(cudaGraphLaunch(graph, r.main), "replay a step"); });
}

// One round. The products run without collectives before and after every three cases. "added" compares with the mean of
// the two nearest such runs, so a drifting clock affects both sides.
static void Round(Rank& r, Timed (&products)[2], std::vector<Timed>& cases) {
  for (Timed& t : cases) t.alone_ms.push_back(StepMs(r, t.alone));
  for (int i = 0; i < 2; ++i) StepMs(r, products[0].both);  // lets the chip's power settle
  float after = 0;
  for (size_t begin = 0, end; begin < cases.size(); begin = end) {
    const bool wide = cases[begin].c.wide, known = begin > 0 && cases[begin - 1].c.wide == wide;
    const float before = known ? after : StepMs(r, products[wide].both);
    for (end = begin; end < cases.size() && end < begin + 3 && cases[end].c.wide == wide; ++end)
      cases[end].both_ms.push_back(StepMs(r, cases[end].both));
    after = StepMs(r, products[wide].both);
    for (size_t i = begin; i < end; ++i) {
      cases[i].products_ms.push_back((before + after) / 2);
      cases[i].added_ms.push_back(cases[i].both_ms.back() - cases[i].products_ms.back());
    }
  }
}

static void Print(const Rank& r, const Timed& t) {
  if (r.world.rank != 0) return;
  const float added = Median(t.added_ms);
  std::printf(
      "{\"probe\":\"buckets\",\"ranks\":%d,\"blocks\":%d,\"gather\":\"%s\",\"scatter\":\"%s\",\"call\":\"%s\","
      "\"wire\":\"%s\",\"ctas\":%d,\"portion\":%g,\"products_ms\":%.2f,\"both_ms\":%.2f,\"added_ms\":%.2f,"
      "\"added_min_ms\":%.2f,\"added_max_ms\":%.2f,\"collectives_ms\":%.2f,\"gb\":%.2f,\"added_ms_per_gb\":%.3f,"
      "\"rounds\":%zu,\"error\":%.2g}\n",
      r.world.size, r.blocks, Name(t.c.gather), Name(t.c.scatter), Name(t.c.cut), t.c.wide ? "f32" : "bf16", t.c.ctas,
      t.c.portion, Median(t.products_ms), Median(t.both_ms), added,
      *std::min_element(t.added_ms.begin(), t.added_ms.end()), *std::max_element(t.added_ms.begin(), t.added_ms.end()),
      Median(t.alone_ms), t.gigabytes, added / t.gigabytes, t.added_ms.size(), t.error);
  std::fflush(stdout);
}

static std::vector<Case> Chosen(const std::string& mode) {
  constexpr Way kNone = Way::kNone, kNccl = Way::kNccl, kExchange = Way::kExchange;
  if (mode == "windows") return {{Way::kNcclCopy, kNone, Cut::kWhole}};
  if (mode == "pulls")
    return {{Way::kPull, kNone},
            {Way::kPull, kNccl},
            {Way::kPull, kExchange},
            {.gather = Way::kPull, .scatter = kNccl, .ctas = 4},
            {.gather = Way::kPull, .scatter = kNone, .portion = 1e-4}};
  return {{kNccl, kNccl},
          {kNccl, kNone},
          {kNone, kNccl},
          {kNccl, kExchange},
          {kNccl, kNccl, Cut::kWhole},
          {kNccl, kNccl, Cut::kQuarters},
          {kNccl, kNccl, Cut::kTwoBlocks},
          {.gather = kNccl, .scatter = kNccl, .portion = 1e-4},
          {.gather = kNccl, .scatter = kNccl, .ctas = 8},
          {.gather = kNccl, .scatter = kNccl, .ctas = 4},
          {.gather = kNccl, .scatter = kNccl, .wide = true}};
}

static void MeasureAll(const World& world, const std::string& mode, int blocks) {
  Rank rank(world, blocks, mode == "windows");
  Timed products[2] = {Prepare(rank, {Way::kNone, Way::kNone}),
                       Prepare(rank, {.gather = Way::kNone, .scatter = Way::kNone, .wide = true})};
  std::vector<Timed> cases;
  for (const Case& c : Chosen(mode)) cases.push_back(Prepare(rank, c));
  for (int round = 0; round < 3; ++round) {
    Round(rank, products, cases);
    for (const Timed& t : cases) Print(rank, t);  // so that an interrupted run has printed results
  }
  cases.insert(cases.end(), products, products + 2);
  for (const Timed& t : cases)
    for (auto graph : {t.both, t.alone}) Check(cudaGraphExecDestroy(graph), "destroy a graph");
  rank.Close();
}

// buckets [nccl | pulls | windows] [BLOCKS]
int main(int argc, char** argv) {
  return RunOnRanks("buckets", [&](const World& world) {
    const std::string mode = argc > 1 ? argv[1] : "nccl";
    const int blocks = argc > 2 ? std::atoi(argv[2]) : 32;
    if (mode != "nccl" && mode != "pulls" && mode != "windows")
      throw std::runtime_error("measures nccl, pulls or windows, got " + mode);
    if (blocks < 4 || blocks % 2)
      throw std::runtime_error("takes an even number of blocks of at least 4, got " + std::to_string(blocks));
    MeasureAll(world, mode, blocks);
  });
}
