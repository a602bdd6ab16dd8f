// Steps of blocks under tensor parallelism on one rank, in the order of a schedule.
//   Rank rank(world, 4, 4096);   Step step(rank, {.schedule = "halves", .slices = 2, .flowing = true});
//   rank.Distribute(2);   step.Issue(Pass::kBoth, true, true);
#pragma once
#include <deque>
#include <map>
#include <set>

#include "../communicator.h"
#include "../product.h"
#include "../streams.h"
#include "sharded_block.h"

constexpr int kBlocks = 4, kRegions = 2 * kBlocks;

struct Case {
  const char* schedule;
  int slices = 1;
  bool fillers = true, cut_attention = true, flowing = false;
};

// ---- one rank ----

struct Rank {
  Rank(const World& w, int batch, int sequence)
      : world(w),
        sizes{w.size, batch * sequence, sequence},
        mix(sizes.First(Kind::kAttention), sizes.Second(Kind::kAttention), 50 + w.rank,
            1 / std::sqrt(float(sizes.First(Kind::kAttention)))),
        all_x(sizes.rows, kWidth, 60, 1),
        all_d_x(sizes.rows, kWidth, 61, 1),
        comm(w, 0, false) {
    for (int i = 0; i <= kRegions; ++i)
      regions.push_back(
          std::make_unique<Region>(sizes, i % 2 ? Kind::kMlp : Kind::kAttention, 1000 * (w.rank + 1) + 2 * i));
    Check(cublasLtCreate(&cublas), "make a cuBLASLt handle");
  }
  // Gives every rank its rows of the step's input and of the gradient of its result, which is the last region's x.
  void Distribute(int slices) {
    for (const auto& r : regions) r->Poison();
    const size_t rows = sizes.rows / slices, share = rows / world.size;
    for (int s = 0; s < slices; ++s) {
      const size_t from = (rows * s + share * world.rank) * kWidth, bytes = share * kWidth * sizeof(bf16);
      Check(cudaMemcpy(regions[0]->x.At(s, slices), all_x.data() + from, bytes, cudaMemcpyDeviceToDevice), "copy x");
      Check(cudaMemcpy(regions[kRegions]->d_x.At(s, slices), all_d_x.data() + from, bytes, cudaMemcpyDeviceToDevice),
            "copy a gradient");
    }
    Check(cudaDeviceSynchronize(), "distribute the rows");
  }

  const World& world;
  Sizes sizes;
  Tensor mix;                                    // [F, E], the weight of attention's substitute
  Tensor all_x, all_d_x;                         // [T, D]
  std::vector<std::unique_ptr<Region>> regions;  // the last one has only x and d_x
  Communicator comm;
  Buffer<uint8_t> workspace{kWorkspace};
  cublasLtHandle_t cublas;
  cudaStream_t main = Stream(Priorities().low), lane = Stream(Priorities().high);
};

// Two streams whose order follows from the data: a reader on one waits for the last write on the other.
class DataOrder : Edges {
 public:
  DataOrder() : Edges(4096) {}
  void Fork(cudaStream_t main, cudaStream_t lane) {
    Restart(), writes_.clear(), seen_.clear(), count_ = 0, Wait(lane, main);
  }
  void Join(cudaStream_t main, cudaStream_t lane) { Wait(main, lane); }
  void Reads(cudaStream_t stream, const bf16* data) {
    const auto found = writes_.find(data);
    if (found == writes_.end() || found->second.stream == stream || found->second.number <= seen_[stream]) return;
    Wait(stream, found->second.event);
    seen_[stream] = found->second.number;  // and all writes of that stream before it
  }
  void Writes(cudaStream_t stream, const bf16* data) { writes_[data] = {stream, Record(stream), ++count_}; }

 private:
  struct Write {
    cudaStream_t stream;
    cudaEvent_t event;
    int number;
  };
  std::map<const bf16*, Write> writes_;
  std::map<cudaStream_t, int> seen_;
  int count_ = 0;
};

// ---- a step ----

enum class Pass { kForward, kBackward, kBoth };

// The products of regions of one kind, on a slice's rows, and on all rows for weight gradients.
struct Products {
  Products(cublasLtHandle_t cublas, const Sizes& s, Kind kind, int slices)
      : first(s.First(kind)), second(s.Second(kind)), rows(s.rows / slices), all(s.rows) {
    const auto make = [&](ProductShape shape) {
      shape.candidates = kMostCandidates;
      return Product(cublas, shape);
    };
    products = {make(Into()),
                make(Out()),
                make({second, rows, kWidth, CUBLAS_OP_T}),
                make({kWidth, rows, first, CUBLAS_OP_T}),
                make(IntoWeight()),
                make({kWidth, second, all, CUBLAS_OP_N, CUBLAS_OP_T})};
  }
  ProductShape Into() const { return {first, rows, kWidth}; }
  ProductShape Out() const { return {kWidth, rows, second}; }
  ProductShape IntoWeight() const { return {first, kWidth, all, CUBLAS_OP_N, CUBLAS_OP_T}; }
  enum { kInto, kOut, kOutData, kIntoData, kIntoWeight, kOutWeight };
  int first, second, rows, all;
  std::vector<Product> products;
};

class Step {
 public:
  Step(Rank& r, const Case& c)
      : r_(r),
        case_(c),
        attention_slices_(c.cut_attention ? c.slices : 1),
        products_{{r.cublas, r.sizes, Kind::kAttention, c.slices}, {r.cublas, r.sizes, Kind::kMlp, c.slices}},
        mix_{Product(r.cublas, MixShape(false)), Product(r.cublas, MixShape(true))} {}

  // Attention at 590 and 465 TFLOP/s, forward and backward, takes as long as this many products at 656.
  int Repeats(bool backward) const {
    const double work = double(r_.sizes.sequence) / r_.sizes.First(Kind::kAttention);
    return std::max(1, int(std::lround(work * (backward ? 2.5 * 656 / 465 : 656. / 590))));
  }

  // Without `compute` or `collectives`, the edges of the graph stay.
  void Issue(Pass pass, bool compute, bool collectives) {
    compute_ = compute, collectives_ = collectives, tuning_ = false;
    Run(pass);
  }
  // Chooses every product's algorithm. Needs the data of a step.
  void Tune() {
    compute_ = true, collectives_ = false, tuning_ = true;
    Run(Pass::kBoth);
  }
  const Products& mlp() const { return products_[1]; }

 private:
  ProductShape MixShape(bool backward) const {
    const int f = r_.sizes.First(Kind::kAttention), e = r_.sizes.Second(Kind::kAttention);
    const int rows = r_.sizes.rows / attention_slices_;
    return backward ? ProductShape{.m = f, .n = rows, .k = e, .op_a = CUBLAS_OP_T, .candidates = kMostCandidates}
                    : ProductShape{.m = e, .n = rows, .k = f, .candidates = kMostCandidates};
  }

  void Run(Pass pass) {
    order_.Fork(r_.main, r_.lane);
    if (pass != Pass::kBackward) Forward();
    if (pass != Pass::kForward) Backward();
    order_.Join(r_.main, r_.lane);
  }

  // Runs `before` on every slice, the attention or activation in the middle, and `after` on every slice.
  template <typename Before, typename Middle, typename After>
  void Slices(const Region& g, Before before, Middle middle, After after) {
    const bool whole = g.kind == Kind::kAttention && !case_.cut_attention;
    for (int s = 0; s < case_.slices; ++s) {
      before(s);
      if (!whole) middle(s, case_.slices), after(s);
    }
    if (!whole) return;
    middle(0, 1);
    for (int s = 0; s < case_.slices; ++s) after(s);
  }

  void Forward() {
    for (int s = 0; s < case_.slices; ++s) Gather(r_.regions[0]->gathered, r_.regions[0]->x, s);
    for (int i = 0; i < kRegions; ++i) {
      const Region &g = *r_.regions[i], &next = *r_.regions[i + 1];
      const auto pass_on = [&](int s) {
        Add(next.x, g.sum, g.x, s);
        if (i + 1 < kRegions) Gather(next.gathered, next.x, s);
      };
      Slices(
          g, [&](int s) { Multiply(g, Products::kInto, g.first, g.into, g.gathered, s); },
          [&](int s, int slices) { Middle(g, s, slices); },
          [&](int s) {
            Multiply(g, Products::kOut, g.partial, g.out, g.second, s);
            Scatter(g.sum, g.partial, s);
            if (case_.flowing) pass_on(s);
          });
      for (int s = 0; s < case_.slices && !case_.flowing; ++s) pass_on(s);
    }
  }

  // Weight gradients have no reader in the step. As fillers they run after the start of a region's last collectives:
  // each window takes all that wait, except the region's first weight, whose gradient fills the next window.
  void Backward() {
    std::deque<std::function<void()>> fillers;
    const Region& last = *r_.regions[kRegions - 1];
    for (int s = 0; s < case_.slices; ++s) Gather(last.d_gathered, r_.regions[kRegions]->d_x, s);
    for (int i = kRegions - 1; i >= 0; --i) {
      const Region &g = *r_.regions[i], &above = *r_.regions[i + 1];
      const auto out_weight = [&] { Weigh(g, Products::kOutWeight, g.d_out, g.d_gathered, g.second); };
      const auto into_weight = [this, &g] { Weigh(g, Products::kIntoWeight, g.d_into, g.d_first, g.gathered); };
      const auto pass_on = [&](int s) {
        Add(g.d_x, g.d_sum, above.d_x, s);
        if (i > 0) Gather(r_.regions[i - 1]->d_gathered, g.d_x, s);
      };
      Slices(
          g, [&](int s) { Multiply(g, Products::kOutData, g.d_second, g.out, g.d_gathered, s); },
          [&](int s, int slices) {
            if (!case_.fillers) out_weight();
            MiddleGradient(g, s, slices);
            if (!case_.fillers) into_weight();
          },
          [&](int s) {
            Multiply(g, Products::kIntoData, g.d_partial, g.into, g.d_first, s);
            Scatter(g.d_sum, g.d_partial, s);
            if (case_.flowing) pass_on(s);
          });
      for (int s = 0; s < case_.slices && !case_.flowing; ++s) pass_on(s);
      if (!case_.fillers) continue;
      for (; !fillers.empty(); fillers.pop_front()) fillers.front()();
      out_weight();
      fillers.push_back(into_weight);
    }
    for (; !fillers.empty(); fillers.pop_front()) fillers.front()();
  }

  void Reads(cudaStream_t stream, const Tensor& t, int s) { order_.Reads(stream, t.At(s, case_.slices)); }
  void ReadsAll(cudaStream_t stream, const Tensor& t) {
    for (int s = 0; s < case_.slices; ++s) Reads(stream, t, s);
  }

  void RunProduct(Product& product, const bf16* a, const bf16* b, bf16* c) {
    if (tuning_ && tuned_.insert(&product).second)
      product.Choose(Fastest(BurstsMs(product, a, b, c, r_.workspace.data(), r_.main)));
    if (compute_) product.Run(a, b, c, r_.workspace.data(), r_.main);
  }
  Product& ProductOf(const Region& g, int which) { return products_[int(g.kind)].products[which]; }

  // to[rows, out] = from[rows, in] weight, or from[rows, out] weight^T for data gradients, on a slice.
  void Multiply(const Region& g, int which, const Tensor& to, const Tensor& weight, const Tensor& from, int s) {
    Reads(r_.main, from, s);
    RunProduct(ProductOf(g, which), weight.data(), from.At(s, case_.slices), to.At(s, case_.slices));
    order_.Writes(r_.main, to.At(s, case_.slices));
  }
  // gradient[in, out] = input[rows, in]^T d_result[rows, out], on all rows.
  void Weigh(const Region& g, int which, const Tensor& gradient, const Tensor& d_result, const Tensor& input) {
    ReadsAll(r_.main, d_result), ReadsAll(r_.main, input);
    RunProduct(ProductOf(g, which), d_result.data(), input.data(), gradient.data());
  }

  void Middle(const Region& g, int s, int slices) {
    bf16 *from = g.first.At(s, slices), *to = g.second.At(s, slices);  // [rows, F], [rows, E]
    if (g.kind == Kind::kAttention) {
      for (int i = 0; i < Repeats(false); ++i) RunProduct(mix_[0], r_.mix.data(), from, to);
    } else if (compute_) {
      SwiGlu<<<1024, 512, 0, r_.main>>>(to, from, r_.sizes.rows / slices, g.second.width);
      Check(cudaGetLastError(), "launch swiglu");
    }
  }
  void MiddleGradient(const Region& g, int s, int slices) {
    bf16 *from = g.d_second.At(s, slices), *to = g.d_first.At(s, slices);  // [rows, E], [rows, F]
    if (g.kind == Kind::kAttention) {
      for (int i = 0; i < Repeats(true); ++i) RunProduct(mix_[1], r_.mix.data(), from, to);
    } else if (compute_) {
      SwiGluGradient<<<1024, 512, 0, r_.main>>>(to, g.first.At(s, slices), from, r_.sizes.rows / slices,
                                                g.second.width);
      Check(cudaGetLastError(), "launch swiglu's gradient");
    }
  }

  // The lane runs a region's sum next to its collectives, so these do not wait for a filler on the main stream.
  void Add(const Tensor& to, const Tensor& sum, const Tensor& residual, int s) {
    const int n = case_.slices;
    Reads(r_.lane, sum, s), Reads(r_.lane, residual, s);
    if (compute_ && !tuning_) {
      AddScaled<<<1024, 512, 0, r_.lane>>>(to.At(s, n), sum.At(s, n), residual.At(s, n), to.memory.size() / n);
      Check(cudaGetLastError(), "launch a sum");
    }
    order_.Writes(r_.lane, to.At(s, n));
  }
  void Gather(const Tensor& whole, const Tensor& shard, int s) {
    const int n = case_.slices;
    Reads(r_.lane, shard, s);
    if (collectives_)
      Check(ncclAllGather(shard.At(s, n), whole.At(s, n), shard.memory.size() / n, ncclBfloat16, r_.comm, r_.lane),
            "all-gather");
    order_.Writes(r_.lane, whole.At(s, n));
  }
  void Scatter(const Tensor& shard, const Tensor& whole, int s) {
    const int n = case_.slices;
    Reads(r_.lane, whole, s);
    if (collectives_)
      Check(ncclReduceScatter(whole.At(s, n), shard.At(s, n), shard.memory.size() / n, ncclBfloat16, ncclSum, r_.comm,
                              r_.lane),
            "reduce-scatter");
    order_.Writes(r_.lane, shard.At(s, n));
  }

  Rank& r_;
  Case case_;
  int attention_slices_;
  Products products_[2];
  Product mix_[2];
  DataOrder order_;
  bool compute_ = true, collectives_ = true, tuning_ = false;
  std::set<const Product*> tuned_;
};
