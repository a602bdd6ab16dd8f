// The last product with its cross-entropy: logits exist for one chunk of rows at a time, their gradient takes their
// place, and the gradients of both operands follow at once (Hsu et al., "Liger Kernel", 2024).
#include <algorithm>
#include <array>
#include <cstring>

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loss/cross_entropy.cuh"
#include "weft/kernels/cuda/product/product_plan.h"

namespace weft::cuda {
namespace {

// Of logits at a time. Every chunk but the first reads and writes the gradient of w, so that more of them cost time.
constexpr int64_t kChunkBytes = int64_t(1) << 30;
constexpr int64_t kAlign = 256, kRows = 128;  // chunks of whole tiles of the products

// Calls fn(i, x) for the vectors of a row that are this thread's. Several are under way at a time, since what fn writes
// may be the row itself and holds back later loads.
template <int V, class T, class Fn>
__device__ __forceinline__ void ForVectors(const T* row, int vectors, Fn fn) {
  int threads = int(blockDim.x);
  for (int first = int(threadIdx.x); first < vectors; first += kUnroll * threads) {
    Vector<T, V> x[kUnroll];  // [kUnroll, V]
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
      if (first + u * threads < vectors) x[u] = Vector<T, V>::Load(row + int64_t(first + u * threads) * V);
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
      if (first + u * threads < vectors) fn(first + u * threads, x[u]);
  }
}

// Calls it for the vectors and then for single elements at the end of the row; fn gets the first column.
template <int V, class T, class Fn>
__device__ __forceinline__ void ForRow(const T* row, int columns, Fn fn) {
  int vectors = columns / V;
  ForVectors<V>(row, vectors, [&](int i, const auto& x) { fn(i * V, x); });
  if constexpr (V > 1)
    ForVectors<1>(row + vectors * V, columns - vectors * V, [&](int i, const auto& x) { fn(vectors * V + i, x); });
}

// dlogit = scale * (p - even - at_target at the target) of a row whose exponentials are relative to `shift`.
template <class T>
struct RowInPlace {
  using C = Compute<T>;
  C shift, rate, offset, at_target;  // scale / sum, -scale * even, scale * at_target
  int target;                        // -1: outside the vocabulary

  template <int V>
  __device__ __forceinline__ void Store(T* row, int column, const Vector<T, V>& x) const {
    C d[V];  // [V]
#pragma unroll
    for (int v = 0; v < V; v++) d[v] = fma(Exponent<T>::Shifted(x[v], shift), rate, offset);
    if (unsigned(target - column) < unsigned(V)) {
#pragma unroll
      for (int v = 0; v < V; v++) d[v] -= target == column + v ? at_target : C(0);
    }
    Vector<T, V>::Of(d).Store(row + column);
  }
};

// A block takes a row: its loss and, where there is a gradient, that in place of the logits. 1024 threads, so that few
// rows are under way and the second reading finds them in the cache.
template <class T, int V, bool kGradient>
__global__ void __launch_bounds__(kMostThreads) LossInPlace(const __grid_constant__ LossArgs<T> args) {
  using C = Compute<T>;
  __shared__ C shared[kWarp];
  T* row = args.dlogits + args.rows.At(blockIdx.x).of[0];
  Place at = args.per_token.At(blockIdx.x);
  int64_t target = args.Target(at.of[0]);
  bool known = target >= 0 && target < args.columns, totals = args.smoothing != 0;
  double picked = known ? double(Widen(row[target])) : 0;
  Running<T> running;
  ForRow<V>(row, int(args.columns), [&](int, const auto& x) { running.Add({x}, totals); });
  running.Join(shared, totals);
  if (threadIdx.x == 0) {
    double lse = Exponent<T>::Log(running.shift, running.sum);
    args.loss[at.of[1]] = C(LossOfRow(args, running, lse, target, picked));
  }
  if constexpr (kGradient) {
    __syncthreads();  // all have read the target's logit
    C scale = known ? args.dloss[at.of[2]] : C(NAN);
    RowInPlace<T> grad{running.shift, scale / running.sum, -scale * args.even, scale * args.at_target,
                       known ? int(target) : -1};
    if (target == args.ignore)
      ForRow<V>(row, int(args.columns), [&](int column, auto x) { decltype(x){}.Store(row + column); });
    else
      ForRow<V>(row, int(args.columns), [&](int column, const auto& x) { grad.Store(row, column, x); });
  }
}

// A range of the rows of a call, and the logits in the workspace. Rows that lie one behind another become one dim.
struct Chunk {
  TensorView x, w, targets, loss, dloss, dx, dw, logits;
  std::string rows;  // labels

  static bool IsFlat(const TensorView& v) {
    int64_t stride = 1;
    for (int d = v.rank - 1; d >= 0; stride *= v.dim(d--).extent)
      if (v.dim(d).extent > 1 && v.dim(d).stride != stride) return false;
    return true;
  }
  static bool AllFlat(const KernelCall& call) {
    bool flat = IsFlat(call.in[0]) && IsFlat(call.in[2]) && IsFlat(call.out[0]);
    return flat && (call.in.size() < 4 || (IsFlat(call.in[3]) && IsFlat(call.out[1])));
  }
  static TensorView RowsOf(const TensorView& v, int64_t first, int64_t count, int64_t columns) {
    char* data = v.as<char>();
    if (data) data += size_t(first * std::max<int64_t>(columns, 1)) * SizeOf(v.dtype);
    return columns ? MakeView(data, v.dtype, {count, columns}) : MakeView(data, v.dtype, {count});
  }

  // The rows [first, first + count) of a call whose views are flat, or all of them.
  Chunk(const KernelCall& call, bool flat, int64_t first, int64_t count)
      : x(call.in[0]), w(call.in[1]), targets(call.in[2]), loss(call.out[0]) {
    bool gradient = call.in.size() == 4;
    if (gradient) dloss = call.in[3], dx = call.out[1], dw = call.out[2];
    if (flat) {
      int64_t width = ColumnsOf(x);
      x = RowsOf(x, first, count, width), targets = RowsOf(targets, first, count, 0);
      loss = RowsOf(loss, first, count, 0);
      if (gradient) dx = RowsOf(dx, first, count, width), dloss = RowsOf(dloss, first, count, 0);
    }
    rows = std::string("abcdefgh").substr(0, size_t(x.rank - 1));
    Shape shape;
    for (int d = 0; d + 1 < x.rank; d++) shape.push_back(x.dim(d).extent);
    int64_t vocab = w.dim(0).extent;
    shape.push_back(LeadingOf(x.dtype, vocab));
    logits = MakeView(call.workspace, x.dtype, shape);
    logits.dims[size_t(x.rank - 1)].extent = logits.dims[size_t(x.rank - 1)].global = vocab;
  }
  // Rows of logits begin at multiples of 128 bytes whatever the vocabulary.
  static int64_t LeadingOf(DType dtype, int64_t vocab) { return RoundUp(vocab, 128 / int64_t(SizeOf(dtype))); }
  size_t LogitBytes() const { return size_t(RoundUp(logits.CapacityElements() * int64_t(SizeOf(x.dtype)), kAlign)); }
};

// One of the products around a chunk's logits, as the rows of einsum and linear run it.
struct Step {
  Op op;
  Attrs attrs;
  std::array<TensorView, 3> in;
  size_t operands;
  TensorView out;

  static Step Logits(const Chunk& c) {
    return {Op::kEinsum, {{"eq", c.rows + "y,zy->" + c.rows + "z"}}, {c.x, c.w}, 2, c.logits};
  }
  static Step Dx(const Chunk& c) {
    return {Op::kEinsum, {{"eq", c.rows + "z,zy->" + c.rows + "y"}}, {c.logits, c.w}, 2, c.dx};
  }
  // Adds to dw, or sets it.
  static Step Dw(const Chunk& c, bool add) {
    Attrs attrs{{"eq", c.rows + "z," + c.rows + "y->zy"}, {"bias", 0}, {"residual", add}, {"wide", 1}};
    return {Op::kLinear, std::move(attrs), {c.logits, c.x, c.dw}, add ? size_t(3) : 2, c.dw};
  }

  KernelCall CallOf(const KernelCall& call, size_t offset) const {
    KernelCall mine = call;
    mine.attrs = &attrs;
    mine.in = std::span(in).first(operands);
    mine.out = std::span(&out, 1);
    mine.workspace = call.workspace ? static_cast<char*>(call.workspace) + offset : nullptr;
    mine.workspace_bytes = call.workspace_bytes > offset ? call.workspace_bytes - offset : 0;
    return mine;
  }
  const KernelRow& Row(const KernelCall& call) const { return call.context->kernels(DeviceKind::kCuda).Row(op); }
  size_t Workspace(const KernelCall& call) const { return Row(call).workspace(CallOf(call, 0)); }
  void Run(const KernelCall& call, const Chunk& c) const { Row(call).run(CallOf(call, c.LogitBytes())); }
};

// How the rows of a call are cut.
struct Cut {
  bool flat;
  int64_t rows, size;  // all; of a chunk

  explicit Cut(const KernelCall& call) : flat(Chunk::AllFlat(call)), rows(RowCount(call.in[0])), size(rows) {
    int64_t row = Chunk::LeadingOf(call.in[0].dtype, call.in[1].dim(0).extent) * int64_t(SizeOf(call.in[0].dtype));
    int64_t chunks = CeilDiv(rows * row, kChunkBytes);
    if (!flat || chunks <= 1) return;
    size = RoundUp(CeilDiv(rows, chunks), kRows);
    if (call.in.size() == 4 && !Adds(call)) size = rows;
  }
  int64_t Last() const { return rows - (rows - 1) / size * size; }

  // Can the library add a chunk's part of dw to what is there?
  bool Adds(const KernelCall& call) const {
    Chunk chunk(call, flat, 0, Last());
    Step step = Step::Dw(chunk, false);
    ProductPlan plan(step.CallOf(call, 0));
    return plan.route == ProductPlan::Route::kLibrary && !plan.out_copy;
  }
};

size_t Workspace(const KernelCall& call) {
  Cut cut(call);
  if (cut.rows == 0) return 0;
  size_t most = 0;
  for (int64_t size : {cut.size, cut.Last()}) {
    Chunk chunk(call, cut.flat, 0, size);
    size_t products = Step::Logits(chunk).Workspace(call);
    if (call.in.size() == 4)
      products = std::max({products, Step::Dx(chunk).Workspace(call), Step::Dw(chunk, true).Workspace(call)});
    most = std::max(most, chunk.LogitBytes() + products);
  }
  return most;
}

template <class T, bool kGradient>
void Losses(const KernelCall& call, const Chunk& c) {
  LossArgs<T> args;
  args.dlogits = c.logits.as<T>();
  args.targets = c.targets.data;
  args.target_bytes = int(SizeOf(c.targets.dtype));
  args.loss = c.loss.as<Compute<T>>();
  args.dloss = c.dloss.as<const Compute<T>>();
  args.rows = WalkRows(c.x.rank - 1, {&c.logits});
  args.per_token = WalkRows(c.targets.rank, {&c.targets, &c.loss, kGradient ? &c.dloss : nullptr});
  args.columns = ColumnsOf(c.logits);
  WEFT_CHECK(args.columns < INT32_MAX, "linear_cross_entropy on CUDA: expected a vocabulary below 2^31");
  args.SetSmoothing(*call.attrs);
  auto kernel = &LossInPlace<T, 1, kGradient>;
  int64_t vectors = args.columns;
  if constexpr (sizeof(T) <= 4) kernel = &LossInPlace<T, kPack<T>, kGradient>, vectors = CeilDiv(vectors, kPack<T>);
  auto threads = unsigned(std::min<int64_t>(kMostThreads, RoundUp(vectors, kWarp)));
  kernel<<<args.rows.steps, threads, 0, DeviceOf(call).stream()>>>(args);
  WEFT_CUDA_LAUNCHED("linear_cross_entropy");
}

template <bool kGradient>
void RunChunk(const KernelCall& call, const Chunk& chunk, bool first) {
  Step::Logits(chunk).Run(call, chunk);
  DispatchFloating(chunk.x.dtype, [&](auto zero) { Losses<decltype(zero), kGradient>(call, chunk); });
  if constexpr (kGradient) {
    Step::Dx(chunk).Run(call, chunk);
    Step::Dw(chunk, !first).Run(call, chunk);
  }
}

template <Op op>
void Run(const KernelCall& call) {
  constexpr bool kGradient = op == Op::kLinearCrossEntropyGrad;
  if (!IsFloating(call.in[0].dtype)) RefuseType(op, call.in[0].dtype, "a float");
  Cut cut(call);
  if (cut.rows == 0) {
    if (kGradient)
      DeviceOf(call).Fill(call.out[2].data, 0, size_t(call.out[2].CapacityElements()) * SizeOf(call.out[2].dtype));
    return;
  }
  for (int64_t first = 0; first < cut.rows; first += cut.size)
    RunChunk<kGradient>(call, Chunk(call, cut.flat, first, std::min(cut.size, cut.rows - first)), first == 0);
}

}  // namespace

void AddLinearLoss(KernelTable& table) {
  table.Add(Op::kLinearCrossEntropy, {.run = &Run<Op::kLinearCrossEntropy>, .workspace = &Workspace});
  table.Add(Op::kLinearCrossEntropyGrad, {.run = &Run<Op::kLinearCrossEntropyGrad>, .workspace = &Workspace});
}

}  // namespace weft::cuda
