// Cross-entropy over the last dim, and its gradient.
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loss/cross_entropy.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = kLossThreads;

// If there are few rows, they are cut into [rows, parts] parts. The block of a row that finishes last joins its parts.
template <class T>
struct Parts {
  Running<T>* known = nullptr;  // null if rows are not cut
  uint32_t* tickets = nullptr;  // [rows]
  uint32_t count = 1;
  int64_t vectors = 0;  // per part
};

// Each block takes one part of a row.
template <class T, int V>
__global__ void __launch_bounds__(kMostThreads)
    LossKernel(const __grid_constant__ LossArgs<T> args, const __grid_constant__ Parts<T> parts) {
  using C = Compute<T>;
  __shared__ C shared[kWarp];
  uint32_t row = blockIdx.x / parts.count, part = blockIdx.x - row * parts.count;
  const T* x = args.logits + args.rows.At(row).of[0];
  int64_t first = part * parts.vectors * V, columns = min(parts.vectors * V, args.columns - first);
  Running<T> running;
  running.template AddRow<V>(x + first, columns, args.smoothing != 0);
  running.Join(shared, args.smoothing != 0);
  if (parts.known) {
    if (threadIdx.x == 0) parts.known[blockIdx.x] = running;
    if (!ComesLast(parts.tickets + row, parts.count)) return;
    running = {};
    const Running<T>* known = parts.known + row * parts.count + threadIdx.x;
    if (threadIdx.x < parts.count)  // bypasses this multiprocessor's cache, because other blocks wrote it
      running.shift = __ldcg(&known->shift), running.sum = __ldcg(&known->sum), running.total = __ldcg(&known->total);
    running.Join(shared, args.smoothing != 0);
  }
  if (threadIdx.x != 0) return;
  Place at = args.per_token.At(row);
  int64_t target = args.Target(at.of[0]);
  double lse = Exponent<T>::Log(running.shift, running.sum);
  bool known = target >= 0 && target < args.columns;
  double loss = LossOfRow(args, running, lse, target, known ? double(Widen(x[target])) : 0);
  args.lse[at.of[1]] = C(lse);
  args.loss[at.of[2]] = C(loss);
}

// Each block takes one of the `chunks` parts of a row, with `size` vectors each.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    LossGradKernel(const __grid_constant__ LossArgs<T> args, uint32_t chunks, int64_t size) {
  uint32_t row = blockIdx.x / chunks, chunk = blockIdx.x - row * chunks;
  Place at = args.rows.At(row);
  const T* x = args.logits + at.of[0];
  T* d = args.dlogits + at.of[1];
  int64_t first = chunk * size + threadIdx.x, end = min((chunk + 1) * size, args.columns / V);
  Vector<T, V> several[kUnroll];  // [kUnroll, V]
#pragma unroll
  for (int u = 0; u < kUnroll; u++)
    if (first + u * kThreads < end) several[u] = Vector<T, V>::Load(x + (first + u * kThreads) * V);
  Place token = args.per_token.At(row);
  RowGrad<T> grad(args, args.Target(token.of[0]), args.lse[token.of[1]], args.dloss[token.of[2]]);
#pragma unroll
  for (int u = 0; u < kUnroll; u++) {
    int64_t vector = first + u * kThreads;
    if (vector < end) grad.Of(several[u], vector * V).Store(d + vector * V);
  }
}

static_assert(kLossBlocks / 2 <= int64_t(CudaDevice::kTickets));
static_assert(sizeof(Running<float>) == kKnownOfPart * sizeof(float) &&
              sizeof(Running<double>) == kKnownOfPart * sizeof(double));

// Returns the threads per block:
// - kThreads, if rows are cut into parts;
// - kMostThreads, if there are fewer than two rows per multiprocessor;
// - otherwise 256 to 512, so that another block keeps memory busy while one ends. Among these it is the number that
//   leaves the fewest threads idle in the last iteration.
//
// It is lower if a row has too little work for so many.
unsigned ThreadsOfRow(int64_t rows, int64_t parts, int64_t vectors) {
  int64_t most = parts > 1 ? kThreads : rows < 2 * kProcessors ? kMostThreads : kMostThreads / 2, best = most;
  auto slots = [&](int64_t threads) { return RoundUp(vectors, kUnroll * threads); };
  if (most == kMostThreads / 2)
    for (int64_t threads = most; threads >= most / 2; threads -= kWarp)
      if (slots(threads) < slots(best)) best = threads;
  return unsigned(std::min(best, RoundUp(CeilDiv(vectors, kUnroll), kWarp)));
}

template <class T>
void RunLoss(const KernelCall& call) {
  const TensorView &logits = call.in[0], &loss = call.out[0], &lse = call.out[1];
  LossArgs<T> args = ArgsOf<T>(call, nullptr, lse, loss);
  args.loss = loss.as<Compute<T>>();
  auto kernel = &LossKernel<T, 1>;
  int64_t vectors = args.columns, rows = args.rows.steps;
  if constexpr (sizeof(T) <= 4)
    if (RowsAligned(logits, kPack<T>)) kernel = &LossKernel<T, kPack<T>>, vectors = args.columns / kPack<T>;
  Parts<T> parts{.count = uint32_t(PartsOfRow(rows, vectors))};
  parts.vectors = CeilDiv(vectors, int64_t(parts.count));
  if (parts.count > 1) parts.known = static_cast<Running<T>*>(call.workspace), parts.tickets = DeviceOf(call).tickets();
  kernel<<<unsigned(rows) * parts.count, ThreadsOfRow(rows, parts.count, parts.vectors), 0, DeviceOf(call).stream()>>>(
      args, parts);
  WEFT_CUDA_LAUNCHED("cross_entropy");
}

template <class T>
void RunLossGrad(const KernelCall& call) {
  const TensorView &logits = call.in[0], &lse = call.in[2], &dloss = call.in[3], &dlogits = call.out[0];
  LossArgs<T> args = ArgsOf<T>(call, &dlogits, lse, dloss);
  args.dlogits = dlogits.as<T>();
  args.dloss = dloss.as<const Compute<T>>();
  auto kernel = &LossGradKernel<T, 1>;
  int64_t vectors = args.columns;
  if constexpr (sizeof(T) <= 4)
    if (RowsAligned(logits, kPack<T>) && RowsAligned(dlogits, kPack<T>))
      kernel = &LossGradKernel<T, kPack<T>>, vectors = args.columns / kPack<T>;
  int64_t chunks = CeilDiv(vectors, kUnroll * kThreads), blocks = args.rows.steps * chunks;
  WEFT_CHECK(blocks <= INT32_MAX, "cross_entropy_grad on CUDA: expected fewer than 2^41 logits; split the batch");
  kernel<<<unsigned(blocks), kThreads, 0, DeviceOf(call).stream()>>>(args, uint32_t(chunks), CeilDiv(vectors, chunks));
  WEFT_CUDA_LAUNCHED("cross_entropy_grad");
}

template <Op op>
void Run(const KernelCall& call) {
  const TensorView& logits = call.in[0];
  if (!IsFloating(logits.dtype)) RefuseType(op, logits.dtype, "a float");
  if (logits.NumElements() == 0) return;
  DispatchFloating(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (op == Op::kCrossEntropy)
      RunLoss<T>(call);
    else
      RunLossGrad<T>(call);
  });
}

}  // namespace

void AddLoss(KernelTable& table) {
  SetRun(table, Op::kCrossEntropy, &Run<Op::kCrossEntropy>);
  SetRun(table, Op::kCrossEntropyGrad, &Run<Op::kCrossEntropyGrad>);
}

}  // namespace weft::cuda
