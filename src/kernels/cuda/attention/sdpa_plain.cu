// Attention for every floating dtype, every option and head sizes up to 1024, in memory linear in the sequence length:
// the backend of last resort. Its backward pass is in sdpa_plain_grad.cu.
//
// One block per query walks the keys that its position lets it see, in pieces of one key per thread. A piece has three
// steps: which keys are seen, one per thread; the scores, one per warp; then the weighted sum of rows, one column per
// thread. Sums have a fixed order.
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/attention/sdpa_plain.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = kPlainThreads, kWarps = kPlainWarps;

__device__ __forceinline__ float LogOf(float x) { return logf(x); }
__device__ __forceinline__ double LogOf(double x) { return log(x); }

// A softmax over the keys so far.
template <class C>
struct RunningSoftmax {
  C largest = -C(INFINITY), total = 0;

  // Returns the factor by which earlier sums must be scaled, and turns each thread's score into exp(score - largest).
  __device__ C Add(C& score, C* scratch) {
    C top = BlockReduce(max(score, largest), MaxOf(), scratch);
    C base = top == -C(INFINITY) ? C(0) : top;  // all scores may be -inf
    C factor = ExpOf(largest - base);
    score = ExpOf(score - base);
    total = total * factor + BlockReduce(score, SumOf(), scratch);
    largest = top;
    return factor;
  }
  // Ends it with a score that has no value; -inf: none. Returns lse, and sets the factor of the results.
  __device__ C End(C sink, C& factor) const {
    C top = largest, sum = total, scale = 1;
    if (sink > -C(INFINITY)) {
      top = max(largest, sink);
      scale = ExpOf(largest - top);
      sum = total * scale + ExpOf(sink - top);
    }
    factor = sum > 0 ? scale / sum : sum;  // NaN stays NaN
    return top + LogOf(sum);
  }
};

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kThreads)
    PlainForward(SdpaSizes z, const __grid_constant__ SdpaRules rules, SdpaOperand q, SdpaOperand k, SdpaOperand v,
                 SdpaOperand out, SdpaOperand lse) {
  auto [b, i, h] = PlaceOf(blockIdx.x, z.H, z.T);
  int g = z.KvHead(h), tid = int(threadIdx.x), warp = tid / kWarp;
  __shared__ bool visible[kThreads];
  C* query = SharedStart<C>();  // [D]
  C* sum = query + z.D;         // [E]
  C* p = sum + z.E;             // [kThreads]
  C* scratch = p + kThreads;    // [kWarps]
  LoadRow(q.At<T>(b, i, h), z.D, query);
  for (int d = tid; d < z.E; d += kThreads) sum[d] = 0;
  RunningSoftmax<C> softmax;
  IndexRange keys = rules.Keys(b, i);
  for (int begin = keys.begin; begin < keys.end; begin += kThreads) {
    int n = min(kThreads, keys.end - begin);
    if (!AnyVisible(n, visible, [&](int x) { return rules.Sees({b, h, i, begin + x}); })) continue;
    for (int j = warp; j < n; j += kWarps) {
      if (!visible[j]) continue;
      C product = WarpDot(query, k.At<T>(b, begin + j, g), z.D) * C(z.scale);
      if (tid % kWarp == 0) p[j] = rules.Score<T>(product, {b, h, i, begin + j});
    }
    __syncthreads();
    C probability = visible[tid] ? p[tid] : -C(INFINITY);
    C factor = softmax.Add(probability, scratch);
    p[tid] = rules.dropout.Keeps({b, h, i, begin + tid}) ? probability * C(rules.dropout.kept) : C(0);
    __syncthreads();
    for (int d = tid; d < z.E; d += kThreads) {
      C value = sum[d] * factor;
      for (int j = 0; j < n; j++)
        if (visible[j]) value += p[j] * Widen(v.At<T>(b, begin + j, g)[d]);
      sum[d] = value;  // only this thread reads and writes it
    }
    __syncthreads();  // the next piece overwrites `visible`
  }
  C factor, total = softmax.End(rules.sinks ? Widen(static_cast<const T*>(rules.sinks)[h]) : -C(INFINITY), factor);
  T* y = out.At<T>(b, i, h);  // [E]
  for (int d = tid; d < z.E; d += kThreads) y[d] = Narrow<T>(sum[d] * factor);
  if (tid == 0) *lse.At<C>(b, i, h) = total;
}

}  // namespace

void SdpaPlain(const KernelCall& call) {
  SdpaSizes z(call);
  SdpaRules rules(call);
  DispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    size_t shared = (size_t(z.D) + size_t(z.E) + kThreads + kWarps) * sizeof(Compute<T>);
    LaunchPlain(call, "sdpa: plain", PlainForward<T>, int64_t(z.B) * z.H * z.T, shared, z, rules, OperandOf(call.in[0]),
                OperandOf(call.in[1]), OperandOf(call.in[2]), OperandOf(call.out[0]), OperandOf(call.out[1]));
  });
}

}  // namespace weft::cuda
