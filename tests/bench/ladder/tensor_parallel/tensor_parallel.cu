// Probe: how much of tensor parallelism's communication each schedule hides. Four blocks of Llama 8B run forward and
// backward in one CUDA graph, with one process per GPU, sequence parallelism, random data, and NCCL's collectives on
// one lane. The schedules:
// - plain: gather, products, reduce-scatter, one after the other.
// - fillers: weight gradients run while the collectives of the backward pass do.
// - halves: fillers, and two halves of the batch in turns, so that one half's collectives run under the other's
// products.
// - chunks: fillers, and every region between a gather and a scatter is cut into chunks of rows. Attention needs all
//   rows, so it is not cut. A region begins when the one before it has ended; "flowing" chunks do not wait for that.
// A slice, which is a half or a chunk, has the same share of every rank's rows, so each of its collectives is one call.
// Attention is replaced by repeated products that take as long.
#include "../product.h"
#include "sharded_step.h"

// ---- checking ----

// Checks three products of the first MLP in f64. For steps in one slice.
static float ProductError(const Rank& r, const Step& step) {
  const Region& g = *r.regions[1];
  const Products& p = step.mlp();
  float worst = 0;
  const auto see = [&](const ProductShape& shape, const Tensor& a, const Tensor& b, const Tensor& c, double deviation) {
    worst = std::max(worst, Compare(shape, a.data(), b.data(), c.data(), 1, deviation, 2e-3).excess);
  };
  see(p.Into(), g.into, g.gathered, g.first, 0.02);
  see(p.Out(), g.out, g.second, g.partial, 0.01);
  see(p.IntoWeight(), g.d_first, g.gathered, g.d_into, 1);
  return worst;
}

// Compares gathered rows with the owner's, and scattered sums with the sums of all ranks' parts, in a sample of a step
// in one slice. NCCL rounds partial sums to bf16, each by up to 2^-9 of their size.
static float CollectiveError(const Rank& r, const Tensor& shard, const Tensor& gathered, const Tensor& sum,
                             const Tensor& partial) {
  float worst = 0;
  for (uint32_t i = 0; i < 97; ++i) {
    const size_t row = Mix(2 * i) % uint32_t(r.sizes.rows), column = Mix(2 * i + 1) % uint32_t(kWidth);
    const size_t share = r.sizes.rows / r.world.size, at = row % share * kWidth + column;
    const bool owner = row / share == size_t(r.world.rank);
    const float part = Fetch(partial.data() + row * kWidth + column);
    const float mine[3] = {owner ? Fetch(shard.data() + at) : 0, part, std::abs(part)};
    float all[3];  // the owner's value, the sum, and the sum of sizes
    MPI_Allreduce(mine, all, 3, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    worst = std::max(worst, Excess(Fetch(gathered.data() + row * kWidth + column), all[0], 1e-6));
    if (owner) worst = std::max(worst, Excess(Fetch(sum.data() + at), all[1], 0.01 * all[2]));
  }
  return worst;
}

// Adds (a - b)^2 and b^2 over all elements to out[0] and out[1].
__global__ void SumSquares(const bf16* a, const bf16* b, size_t n, double* out) {
  double difference = 0, norm = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    const float x = __bfloat162float(a[i]), y = __bfloat162float(b[i]);
    difference += double(x - y) * double(x - y), norm += double(y) * y;
  }
  atomicAdd(out, difference), atomicAdd(out + 1, norm);
}

// The results of a step: the output and the input's gradient, with rows in the order of the whole batch, and the
// gradients of the weights of the first and of the last block.
class Results {
 public:
  Results(const Rank& r, int slices) {
    Keep(r, r.regions[kRegions]->x, slices);
    Keep(r, r.regions[0]->d_x, slices);
    for (int i : {0, 1, kRegions - 2, kRegions - 1})
      for (const Tensor* t : {&r.regions[i]->d_into, &r.regions[i]->d_out}) {
        Buffer<bf16>& copy = Make(t->memory.size());
        Check(cudaMemcpy(copy.data(), t->data(), copy.size() * sizeof(bf16), cudaMemcpyDeviceToDevice),
              "keep a result");
      }
    Check(cudaDeviceSynchronize(), "keep results");
  }
  // Returns the largest relative difference of a tensor.
  double Difference(const Results& other) const {
    double worst = 0;
    Buffer<double> sums(2);
    for (size_t i = 0; i < kept_.size(); ++i) {
      double host[2];
      Check(cudaMemset(sums.data(), 0, sizeof host), "clear sums");
      SumSquares<<<1024, 256>>>(kept_[i]->data(), other.kept_[i]->data(), kept_[i]->size(), sums.data());
      Check(cudaMemcpy(host, sums.data(), sizeof host, cudaMemcpyDeviceToHost), "compare results");
      const double difference = std::sqrt(host[0] / host[1]);
      worst = std::isfinite(difference) ? std::max(worst, difference) : 1e9;
    }
    return worst;
  }

 private:
  Buffer<bf16>& Make(size_t n) { return *kept_.emplace_back(std::make_unique<Buffer<bf16>>(n)); }
  void Keep(const Rank& r, const Tensor& shard, int slices) {
    Buffer<bf16>& all = Make(shard.memory.size() * r.world.size);
    for (int s = 0; s < slices; ++s)
      Check(ncclAllGather(shard.At(s, slices), all.data() + all.size() / slices * s, shard.memory.size() / slices,
                          ncclBfloat16, r.comm, r.lane),
            "gather a result");
    Check(cudaStreamSynchronize(r.lane), "gather a result");
  }
  std::vector<std::unique_ptr<Buffer<bf16>>> kept_;
};

// ---- measuring ----

struct Timed {
  Case c;
  int repeats[2];                // of attention's substitute, forward and backward
  cudaGraphExec_t graphs[3][2];  // forward, backward and both; without and with collectives
  cudaGraphExec_t collectives;
  std::vector<float> ms[3][2] = {}, collectives_ms = {};
  float error = 0;
  double difference = 0;  // from the plain schedule's results
};

// A schedule may change the roundings of a product and of NCCL's partial sums in bf16, but nothing else: 2^-9 each,
// through the eight regions of a step.
constexpr double kMostDifference = 0.03;

// Captures a case's graphs and checks what a replay computes. The first case is the plain one, the reference.
static Timed Prepare(Rank& r, const Case& c, std::unique_ptr<Results>& reference) {
  Step step(r, c);
  Timed t{c, {step.Repeats(false), step.Repeats(true)}};
  r.Distribute(c.slices);
  step.Issue(Pass::kBoth, true, true);  // opens connections before the capture, and makes data to tune with
  Check(cudaDeviceSynchronize(), "run a step");
  step.Tune();
  Check(cudaDeviceSynchronize(), "choose algorithms");
  for (Pass pass : {Pass::kForward, Pass::kBackward, Pass::kBoth})
    for (bool collectives : {false, true})
      t.graphs[int(pass)][collectives] = Capture(r.main, [&] { step.Issue(pass, true, collectives); });
  t.collectives = Capture(r.main, [&] { step.Issue(Pass::kBoth, false, true); });
  r.Distribute(c.slices);
  r.world.Barrier();
  Check(cudaGraphLaunch(t.graphs[int(Pass::kBoth)][true], r.main), "replay a step");
  Check(cudaDeviceSynchronize(), "replay a step");
  auto results = std::make_unique<Results>(r, c.slices);
  if (!reference) {
    const Region &g = *r.regions[1], &above = *r.regions[2];
    t.error = std::max(ProductError(r, step), CollectiveError(r, g.x, g.gathered, g.sum, g.partial));
    t.error = std::max(t.error, CollectiveError(r, above.d_x, g.d_gathered, g.d_sum, g.d_partial));
    reference = std::move(results);
  } else {
    t.difference = results->Difference(*reference);
    t.error = Excess(t.difference, 0, kMostDifference);
  }
  t.difference = r.world.Max(float(t.difference)), t.error = r.world.Max(t.error);
  return t;
}

// One round over a case: without, with, with, without collectives. The first launches settle the chip's power.
static void Round(Rank& r, Timed& t) {
  const auto time = [&](cudaGraphExec_t graph, int launches) {
    return SettledMs(r.world, r.main, launches / 2, launches,
                     [&](int) { Check(cudaGraphLaunch(graph, r.main), "replay a graph"); }) /
           kBlocks;
  };
  for (Pass pass : {Pass::kForward, Pass::kBackward, Pass::kBoth})
    for (int with : {0, 1, 1, 0})
      t.ms[int(pass)][with].push_back(time(t.graphs[int(pass)][with], pass == Pass::kForward ? 16 : 8));
  t.collectives_ms.push_back(time(t.collectives, 8));
}

static void Print(const Rank& r, const Timed& t) {
  if (r.world.rank != 0) return;
  float ms[3][2];
  for (int pass : {0, 1, 2})
    for (int with : {0, 1}) ms[pass][with] = Median(t.ms[pass][with]);
  std::printf(
      "{\"probe\":\"tensor_parallel\",\"ranks\":%d,\"rows\":%d,\"sequence\":%d,\"schedule\":\"%s\",\"slices\":%d,"
      "\"attention_repeats\":[%d,%d],\"forward_ms\":%.3f,\"backward_ms\":%.3f,\"block_ms\":%.3f,"
      "\"exposed_forward_ms\":%.3f,\"exposed_backward_ms\":%.3f,\"exposed_ms\":%.3f,\"compute_ms\":%.3f,"
      "\"collectives_ms\":%.3f,\"rounds\":%zu,\"difference\":%.2g,\"error\":%.2g}\n",
      r.world.size, r.sizes.rows, r.sizes.sequence, t.c.schedule, t.c.slices, t.repeats[0], t.repeats[1], ms[0][1],
      ms[1][1], ms[2][1], ms[0][1] - ms[0][0], ms[1][1] - ms[1][0], ms[2][1] - ms[2][0], ms[2][0],
      Median(t.collectives_ms), t.collectives_ms.size(), t.difference, t.error);
  std::fflush(stdout);
}

static void MeasureAll(const World& world, int batch, int sequence) {
  Rank rank(world, batch, sequence);
  std::vector<Case> cases = {{.schedule = "plain", .fillers = false}, {.schedule = "fillers"}};
  if (batch % 2 == 0) cases.push_back({.schedule = "halves", .slices = 2, .flowing = true});
  for (bool flowing : {false, true})
    for (int slices : {2, 4}) cases.push_back({flowing ? "flowing chunks" : "chunks", slices, true, false, flowing});
  std::unique_ptr<Results> reference;
  std::vector<Timed> timed;
  for (const Case& c : cases) timed.push_back(Prepare(rank, c, reference));
  for (int round = 0; round < 3; ++round)
    for (Timed& t : timed) Round(rank, t);
  for (const Timed& t : timed) {
    Print(rank, t);
    for (const auto& pair : t.graphs)
      for (auto graph : pair) Check(cudaGraphExecDestroy(graph), "destroy a graph");
    Check(cudaGraphExecDestroy(t.collectives), "destroy a graph");
  }
}

// tensor_parallel [BATCH SEQUENCE]
int main(int argc, char** argv) {
  return RunOnRanks("tensor_parallel", [&](const World& world) {
    if (world.size != 2 && world.size != 4)
      throw std::runtime_error("takes 2 or 4 ranks, got " + std::to_string(world.size));
    if (argc == 2 || argc > 3) throw std::runtime_error("takes a batch and a sequence length, or neither");
    if (argc == 3) {
      const int batch = std::atoi(argv[1]), sequence = std::atoi(argv[2]);
      if (batch < 1 || sequence < 256 || sequence % 256)
        throw std::runtime_error("takes a batch of at least 1 and a sequence length that 256 divides, got " +
                                 std::string(argv[1]) + " and " + argv[2]);
      return MeasureAll(world, batch, sequence);
    }
    if (world.size == 4) MeasureAll(world, 4, 4096);
    if (world.size == 2) MeasureAll(world, 2, 8192);
    MeasureAll(world, 1, 8192);
  });
}
