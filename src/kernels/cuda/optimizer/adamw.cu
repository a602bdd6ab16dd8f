// AdamW over parameters: every operand is read and written once.
#include <memory>

#include "weft/core/ops/optimizer_ops.h"

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/loops/many.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

struct Settings {
  double beta1, beta2, eps, weight_decay;
  const void *lr, *scale;  // of the compute type
  const int64_t* updates;
};

template <class C>
struct Coefficients {
  C lr, scale, beta1, beta2, rest1, rest2, correct1, correct2, eps, weight_decay;
  bool any;  // is there an update?

  __device__ explicit Coefficients(const Settings& s) {
    double t = double(*s.updates);
    any = t > 0;
    lr = *static_cast<const C*>(s.lr);
    scale = *static_cast<const C*>(s.scale);
    beta1 = C(s.beta1);
    beta2 = C(s.beta2);
    rest1 = C(1 - s.beta1);
    rest2 = C(1 - s.beta2);
    correct1 = C(1 / (1 - pow(s.beta1, t)));
    correct2 = C(1 / (1 - pow(s.beta2, t)));
    eps = C(s.eps);
    weight_decay = C(s.weight_decay);
  }
  // Without an update all stay as they are: to C and back no bit is lost. Fused multiply-adds are written out: left to
  // the compiler, they and with them the last bits would differ from kernel to kernel.
  __device__ __forceinline__ void Update(C& p, C& m, C& v, C g) const {
    if (!any) return;
    g *= scale;
    m = fma(beta1, m, rest1 * g);
    v = fma(beta2, v, rest2 * (g * g));
    p = fma(-lr, fma(weight_decay, p, m * correct1 / (sqrt(v * correct2) + eps)), p);
  }
};

// Powers of f64 are dear: one thread of a block makes them.
template <class C>
__device__ Coefficients<C> Shared(const Settings& settings) {
  __shared__ alignas(Coefficients<C>) char memory[sizeof(Coefficients<C>)];
  if (threadIdx.x == 0) new (memory) Coefficients<C>(settings);
  __syncthreads();
  return *reinterpret_cast<Coefficients<C>*>(memory);
}

struct Tensors {
  const void *p, *m, *v, *g;
  void *new_p, *new_m, *new_v;
};

// Dense; V elements at once.
template <class T, class M, class G, int V>
__global__ void __launch_bounds__(kThreads) DenseUpdate(Tensors x, Settings settings, int64_t packs) {
  using C = Compute<T>;
  Coefficients<C> k = Shared<C>(settings);
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < packs; i += int64_t(gridDim.x) * kThreads) {
    auto p = static_cast<const Pack<T, V>*>(x.p)[i];                                              // [V]
    auto m = static_cast<const Pack<M, V>*>(x.m)[i], v = static_cast<const Pack<M, V>*>(x.v)[i];  // [V]
    auto g = static_cast<const Pack<G, V>*>(x.g)[i];                                              // [V]
#pragma unroll
    for (int j = 0; j < V; j++) {
      C pj = Widen(p.v[j]), mj = Widen(m.v[j]), vj = Widen(v.v[j]);
      k.Update(pj, mj, vj, C(Widen(g.v[j])));
      p.v[j] = Narrow<T>(pj), m.v[j] = Narrow<M>(mj), v.v[j] = Narrow<M>(vj);
    }
    static_cast<Pack<T, V>*>(x.new_p)[i] = p;
    static_cast<Pack<M, V>*>(x.new_m)[i] = m;
    static_cast<Pack<M, V>*>(x.new_v)[i] = v;
  }
}

// Any strides: `to` walks new_p, new_m, new_v and g, `from` the old ones.
template <class T, class M, class G>
__global__ void __launch_bounds__(kThreads)
    StridedUpdate(const __grid_constant__ Walk to, const __grid_constant__ Walk from, Tensors x, Settings settings) {
  using C = Compute<T>;
  Coefficients<C> k = Shared<C>(settings);
  uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= to.steps) return;
  Place a = to.At(i), b = from.At(i);
  C p = Widen(static_cast<const T*>(x.p)[b.of[0]]), m = Widen(static_cast<const M*>(x.m)[b.of[1]]),
    v = Widen(static_cast<const M*>(x.v)[b.of[2]]);
  k.Update(p, m, v, C(Widen(static_cast<const G*>(x.g)[a.of[3]])));
  static_cast<T*>(x.new_p)[a.of[0]] = Narrow<T>(p);
  static_cast<M*>(x.new_m)[a.of[1]] = Narrow<M>(m);
  static_cast<M*>(x.new_v)[a.of[2]] = Narrow<M>(v);
}

template <class T, class M, class G>
void Update(const KernelCall& call, const Tensors& x, const Settings& settings) {
  const TensorView* all[] = {&call.out[0], &call.out[1], &call.out[2], &call.in[3],
                             &call.in[0],  &call.in[1],  &call.in[2]};
  Nest nest = Nest::Over(all);
  cudaStream_t stream = DeviceOf(call).stream();
  constexpr int V = std::min({kPack<T>, kPack<M>, kPack<G>});
  bool dense = nest.rank <= 1 && nest.Count() % V == 0;
  for (const TensorView* view : all) dense &= Aligned16(view->data);
  for (int o = 0; o < nest.operands; o++) dense &= nest.inner_stride(o) == 1;
  if (dense) {
    int64_t packs = nest.Count() / V, most = int64_t(DeviceOf(call).multiprocessors()) * 16;
    DenseUpdate<T, M, G, V>
        <<<unsigned(std::min(CeilDiv(packs, kThreads), most)), kThreads, 0, stream>>>(x, settings, packs);
    WEFT_CUDA_LAUNCHED("adamw");
    return;
  }
  Nest to(4), from(3);
  for (int d = 0; d < nest.rank; d++) {
    const Offsets& s = nest.strides[size_t(d)];
    to.Add(nest.extents[size_t(d)], {s[0], s[1], s[2], s[3]});
    from.Add(nest.extents[size_t(d)], {s[4], s[5], s[6]});
  }
  WEFT_CHECK(nest.Count() <= INT32_MAX,
             "adamw on CUDA: more than 2^31 elements that are not dense; shard the parameter");
  StridedUpdate<T, M, G>
      <<<Blocks(uint32_t(nest.Count()), kThreads), kThreads, 0, stream>>>(Walk(to, {}), Walk(from, {}), x, settings);
  WEFT_CUDA_LAUNCHED("adamw");
}

// Many parameters in f32, dense, by one launch.
struct Parameters {
  struct Entry {
    Tensors x;
    int64_t packs;
    float weight_decay;
    uint32_t first;  // block
  };
  static constexpr int kMost = 384;  // kernels take 32 KiB of arguments
  Settings settings;
  int count = 0;
  uint32_t blocks = 0;
  Entry entries[kMost];
};
constexpr int64_t kPacksOfBlock = kThreads * 4;
static_assert(sizeof(Parameters) <= 32764);

__global__ void __launch_bounds__(kThreads) ManyUpdate(const __grid_constant__ Parameters all) {
  constexpr int V = kPack<float>;
  Coefficients<float> k = Shared<float>(all.settings);
  const Parameters::Entry& entry = EntryOf(all.entries, all.count, blockIdx.x);
  k.weight_decay = entry.weight_decay;
  int64_t begin = int64_t(blockIdx.x - entry.first) * kPacksOfBlock + threadIdx.x;
#pragma unroll
  for (int64_t i = begin; i < begin + kPacksOfBlock; i += kThreads) {
    if (i >= entry.packs) return;
    auto load = [&](const void* data) { return static_cast<const Pack<float, V>*>(data)[i]; };
    auto p = load(entry.x.p), m = load(entry.x.m), v = load(entry.x.v), g = load(entry.x.g);  // [V]
#pragma unroll
    for (int j = 0; j < V; j++) k.Update(p.v[j], m.v[j], v.v[j], g.v[j]);
    static_cast<Pack<float, V>*>(entry.x.new_p)[i] = p;
    static_cast<Pack<float, V>*>(entry.x.new_m)[i] = m;
    static_cast<Pack<float, V>*>(entry.x.new_v)[i] = v;
  }
}

// Calls fn with a value of the dtype, which is T's or the one that T computes in.
template <class T, class Fn>
void DispatchWider(DType dtype, DType own, const char* what, Fn&& fn) {
  WEFT_CHECK(dtype == own || dtype == AccumulateType(own), std::string("adamw on CUDA: expected ") + what + " in " +
                                                               Name(own) + " or " + Name(AccumulateType(own)) +
                                                               ", got " + Name(dtype));
  dtype == own ? fn(T{}) : fn(Compute<T>{});
}

Tensors TensorsOf(const KernelCall& call) {
  return {call.in[0].data,  call.in[1].data,  call.in[2].data, call.in[3].data,
          call.out[0].data, call.out[1].data, call.out[2].data};
}
Settings SettingsOf(const KernelCall& call) {
  return {call.attrs->Float("beta1"),
          call.attrs->Float("beta2"),
          call.attrs->Float("eps"),
          call.attrs->Float("weight_decay"),
          call.in[4].data,
          call.in[5].data,
          call.in[6].as<const int64_t>()};
}

void AdamW(const KernelCall& call) {
  if (call.out[0].NumElements() == 0) return;
  const TensorView &p = call.in[0], &m = call.in[1], &v = call.in[2], &g = call.in[3];
  WEFT_CHECK(m.dtype == v.dtype, "adamw on CUDA: expected both moments in one dtype");
  Tensors x = TensorsOf(call);
  Settings settings = SettingsOf(call);
  DispatchFloating(p.dtype, [&](auto t) {
    using T = decltype(t);
    DispatchWider<T>(m.dtype, p.dtype, "moments", [&](auto moment) {
      using M = decltype(moment);
      // Gradients may be narrower than master weights: they are summed over ranks in precision.reduce.
      if (std::is_same_v<T, float> && g.dtype == DType::kBF16) return Update<float, float, BF16>(call, x, settings);
      if (std::is_same_v<T, float> && g.dtype == DType::kF16) return Update<float, float, F16>(call, x, settings);
      DispatchWider<T>(g.dtype, p.dtype, "the gradient",
                       [&](auto gradient) { Update<T, M, decltype(gradient)>(call, x, settings); });
    });
  });
}

// May the call go into a table with these settings? All but the weight decay are the table's.
bool Fits(const KernelCall& call, const Settings& s) {
  Settings mine = SettingsOf(call);
  bool same = mine.beta1 == s.beta1 && mine.beta2 == s.beta2 && mine.eps == s.eps && mine.lr == s.lr &&
              mine.scale == s.scale && mine.updates == s.updates;
  const TensorView* all[] = {&call.out[0], &call.out[1], &call.out[2], &call.in[0],
                             &call.in[1],  &call.in[2],  &call.in[3]};
  Nest nest = Nest::Over(all);
  bool dense = nest.rank <= 1 && nest.Count() > 0 && nest.Count() % kPack<float> == 0;
  for (const TensorView* view : all) dense &= view->dtype == DType::kF32 && Aligned16(view->data);
  for (int o = 0; o < nest.operands; o++) dense &= nest.inner_stride(o) == 1;
  return same && dense;
}

void ManyAdamW(std::span<const KernelCall> calls) {
  auto all = std::make_unique<Parameters>();
  all->settings = SettingsOf(calls[0]);
  auto flush = [&] {
    if (all->count == 0) return;
    ManyUpdate<<<all->blocks, kThreads, 0, DeviceOf(calls[0]).stream()>>>(*all);
    WEFT_CUDA_LAUNCHED("adamw of many");
    all->count = 0, all->blocks = 0;
  };
  for (const KernelCall& call : calls) {
    if (!Fits(call, all->settings)) {
      AdamW(call);
      continue;
    }
    int64_t packs = call.out[0].NumElements() / kPack<float>;
    all->entries[all->count++] = {TensorsOf(call), packs, float(call.attrs->Float("weight_decay")), all->blocks};
    all->blocks += uint32_t(CeilDiv(packs, kPacksOfBlock));
    if (all->count == Parameters::kMost) flush();
  }
  flush();
}

}  // namespace

void AddAdamW(KernelTable& table) {
  table.Add(Op::kAdamW, {.run = &AdamW, .run_many = &ManyAdamW, .any_strides = true, .in_place = true});
}

}  // namespace weft::cuda
