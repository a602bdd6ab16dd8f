// Shared by all parameter updates: kernels that read and write every operand once, for one parameter or for many.
//
// A Rule has:
// - kName: the op;
// - kKept: the number of tensors that it keeps per parameter;
// - Constants: made from the node's attributes;
// - Coefficients<C>: made on the device from UpdateSettings. Its Update(p, kept, g) updates one element.
//
// Update spells out its fused multiply-adds. Left to the compiler, they would differ between kernels, and with them the
// last bits.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/loops/many.cuh"
#include "weft/kernels/cuda/loops/row_walk.cuh"

namespace weft::cuda {

inline constexpr int kUpdateThreads = 256;

template <class Rule>
struct UpdateSettings {
  typename Rule::Constants constants;
  double weight_decay;
  const void *lr, *scale;  // of the compute type, on the device
  const int64_t* updates;

  static UpdateSettings Of(const KernelCall& call) {
    const TensorView* scalars = &call.in[Rule::kKept + 2];
    return {Rule::Constants::Of(*call.attrs), call.attrs->Float("weight_decay"), scalars[0].data, scalars[1].data,
            scalars[2].as<const int64_t>()};
  }
  // Returns whether one launch can serve both. The weight decay may differ, because it is stored per parameter.
  bool Serves(const UpdateSettings& o) const {
    return constants == o.constants && lr == o.lr && scale == o.scale && updates == o.updates;
  }
};

// The scalars that all rules need. Without an update all tensors keep their values, because converting to C and back
// loses no bit.
template <class C>
struct UpdateScalars {
  C lr, scale, weight_decay;
  double t;
  bool any;  // whether there is an update

  template <class Rule>
  __device__ explicit UpdateScalars(const UpdateSettings<Rule>& s)
      : lr(*static_cast<const C*>(s.lr)),
        scale(*static_cast<const C*>(s.scale)),
        weight_decay(C(s.weight_decay)),
        t(double(*s.updates)),
        any(t > 0) {}
};

// Powers in f64 are expensive, so one thread per block computes them.
template <class Rule, class C>
__device__ typename Rule::template Coefficients<C> SharedCoefficients(const UpdateSettings<Rule>& settings) {
  using Coefficients = typename Rule::template Coefficients<C>;
  __shared__ alignas(Coefficients) char memory[sizeof(Coefficients)];
  if (threadIdx.x == 0) new (memory) Coefficients(settings);
  __syncthreads();
  return *reinterpret_cast<Coefficients*>(memory);
}

// C++ has no arrays of length 0.
constexpr int OrOne(int n) { return n > 0 ? n : 1; }

template <int kKept>
struct UpdateTensors {
  const void *p, *kept[OrOne(kKept)], *g;
  void *new_p, *new_kept[OrOne(kKept)], *copy;  // copy: of new_p in another type, or null

  static UpdateTensors Of(const KernelCall& call) {
    UpdateTensors x{};
    x.p = call.in[0].data;
    x.g = call.in[kKept + 1].data;
    x.new_p = call.out[0].data;
    for (int i = 0; i < kKept; i++) {
      x.kept[i] = call.in[size_t(i) + 1].data;
      x.new_kept[i] = call.out[size_t(i) + 1].data;
    }
    x.copy = call.out.size() > kKept + 1 ? call.out[kKept + 1].data : nullptr;
    return x;
  }
};

// Updates V elements of each tensor: pack i, and pack g_at of g. T, M and G are the types of p, of the kept tensors and
// of g, and W that of the copy of p, which is void if it is not written.
template <class Rule, class T, class M, class G, class W, int V, class Coefficients>
__device__ __forceinline__ void UpdatePack(const UpdateTensors<Rule::kKept>& x, const Coefficients& k, int64_t i,
                                           int64_t g_at) {
  using C = Compute<T>;
  constexpr int N = Rule::kKept;
  auto p = static_cast<const Pack<T, V>*>(x.p)[i];  // [V]
  Pack<M, V> kept[OrOne(N)];                        // [N, V]
#pragma unroll
  for (int s = 0; s < N; s++) kept[s] = static_cast<const Pack<M, V>*>(x.kept[s])[i];
  auto g = static_cast<const Pack<G, V>*>(x.g)[g_at];                             // [V]
  [[maybe_unused]] Pack<std::conditional_t<std::is_void_v<W>, char, W>, V> copy;  // [V]
#pragma unroll
  for (int j = 0; j < V; j++) {
    C pj = Widen(p.v[j]), kj[OrOne(N)];
#pragma unroll
    for (int s = 0; s < N; s++) kj[s] = Widen(kept[s].v[j]);
    if (k.any) k.Update(pj, kj, C(Widen(g.v[j])));
    p.v[j] = Narrow<T>(pj);
    if constexpr (!std::is_void_v<W>) copy.v[j] = Narrow<W>(pj);
#pragma unroll
    for (int s = 0; s < N; s++) kept[s].v[j] = Narrow<M>(kj[s]);
  }
  static_cast<Pack<T, V>*>(x.new_p)[i] = p;
#pragma unroll
  for (int s = 0; s < N; s++) static_cast<Pack<M, V>*>(x.new_kept[s])[i] = kept[s];
  if constexpr (!std::is_void_v<W>) static_cast<Pack<W, V>*>(x.copy)[i] = copy;
}

// For dense tensors, but for the rows of g.
template <class Rule, class T, class M, class G, int V>
__global__ void __launch_bounds__(kUpdateThreads)
    DenseUpdate(UpdateTensors<Rule::kKept> x, UpdateSettings<Rule> settings, int64_t packs, PackRows g) {
  auto k = SharedCoefficients<Rule, Compute<T>>(settings);
  int64_t first = int64_t(blockIdx.x) * kUpdateThreads + threadIdx.x, step = int64_t(gridDim.x) * kUpdateThreads;
  for (int64_t i = first; i < packs; i += step) UpdatePack<Rule, T, M, G, void, V>(x, k, i, g.At(i));
}

// For any strides. `to` walks new_p, the new kept tensors and g; `from` walks the old p and kept tensors.
template <class Rule, class T, class M, class G>
__global__ void __launch_bounds__(kUpdateThreads)
    StridedUpdate(const __grid_constant__ Walk to, const __grid_constant__ Walk from, UpdateTensors<Rule::kKept> x,
                  UpdateSettings<Rule> settings) {
  using C = Compute<T>;
  constexpr int N = Rule::kKept;
  auto k = SharedCoefficients<Rule, C>(settings);
  uint32_t i = blockIdx.x * kUpdateThreads + threadIdx.x;
  if (i >= to.steps) return;
  Place a = to.At(i), b = from.At(i);
  C p = Widen(static_cast<const T*>(x.p)[b.of[0]]), kept[OrOne(N)];
  for (int s = 0; s < N; s++) kept[s] = Widen(static_cast<const M*>(x.kept[s])[b.of[s + 1]]);
  if (k.any) k.Update(p, kept, C(Widen(static_cast<const G*>(x.g)[a.of[N + 1]])));
  static_cast<T*>(x.new_p)[a.of[0]] = Narrow<T>(p);
  for (int s = 0; s < N; s++) static_cast<M*>(x.new_kept[s])[a.of[s + 1]] = Narrow<M>(kept[s]);
}

// Returns the nest over all tensors of a call: results, then g, then the old values, then the copy if there is one.
template <class Rule>
Nest NestOf(const KernelCall& call) {
  constexpr size_t kResults = Rule::kKept + 1;
  const TensorView* all[2 * kResults + 2];
  for (size_t i = 0; i < kResults; i++) {
    all[i] = &call.out[i];
    all[kResults + 1 + i] = &call.in[i];
  }
  all[kResults] = &call.in[kResults];
  bool copies = call.out.size() > kResults;
  if (copies) all[2 * kResults + 1] = &call.out[kResults];
  return Nest::Over(std::span(all).first(2 * kResults + (copies ? 2 : 1)));
}
// If all tensors but g are dense and aligned, and consist of whole packs of V elements, returns the rows of g; nullopt
// if they are not, or if g is not such rows.
template <class Rule>
std::optional<PackRows> DenseRowsOf(const KernelCall& call, int V) {
  constexpr size_t kResults = Rule::kKept + 1;
  bool dense = call.out[0].NumElements() % V == 0;
  auto check = [&](const TensorView& x) {
    const TensorView* views[] = {&x};
    Nest nest = Nest::Over(views);
    dense &= nest.rank <= 1 && nest.inner_stride(0) == 1 && Aligned16(x.data);
  };
  for (const TensorView& out : call.out) check(out);
  for (const TensorView& in : call.in.first(kResults)) check(in);
  return dense ? PackRowsOf(call.in[kResults], V) : std::nullopt;
}

template <class Rule, class T, class M, class G>
void UpdateAs(const KernelCall& call) {
  constexpr int N = Rule::kKept, V = std::min({kPack<T>, kPack<M>, kPack<G>});
  auto x = UpdateTensors<N>::Of(call);
  auto settings = UpdateSettings<Rule>::Of(call);
  cudaStream_t stream = DeviceOf(call).stream();
  if (std::optional<PackRows> g = DenseRowsOf<Rule>(call, V)) {
    int64_t packs = call.out[0].NumElements() / V, most = int64_t(DeviceOf(call).multiprocessors()) * 16;
    auto blocks = unsigned(std::min(CeilDiv(packs, kUpdateThreads), most));
    DenseUpdate<Rule, T, M, G, V><<<blocks, kUpdateThreads, 0, stream>>>(x, settings, packs, *g);
    WEFT_CUDA_LAUNCHED(Rule::kName);
    return;
  }
  Nest nest = NestOf<Rule>(call), to(N + 2), from(N + 1);
  for (int d = 0; d < nest.rank; d++) {
    Offsets out{}, in{};
    for (size_t i = 0; i < N + 2; i++) out[i] = nest.strides[size_t(d)][i];
    for (size_t i = 0; i < N + 1; i++) in[i] = nest.strides[size_t(d)][N + 2 + i];
    to.Add(nest.extents[size_t(d)], out);
    from.Add(nest.extents[size_t(d)], in);
  }
  WEFT_CHECK(nest.Count() <= INT32_MAX, std::string(Rule::kName) +
                                            " on CUDA: more than 2^31 elements that are not "
                                            "dense; shard the parameter");
  StridedUpdate<Rule, T, M, G><<<Blocks(uint32_t(nest.Count()), kUpdateThreads), kUpdateThreads, 0, stream>>>(
      Walk(to, {}), Walk(from, {}), x, settings);
  WEFT_CUDA_LAUNCHED(Rule::kName);
}

// Calls fn with a zero of `dtype`, which must be T's or its accumulate type. Throws Error otherwise.
template <class Rule, class T, class Fn>
void DispatchWider(DType dtype, DType own, const char* what, Fn&& fn) {
  WEFT_CHECK(dtype == own || dtype == AccumulateType(own), std::string(Rule::kName) + " on CUDA: expected " + what +
                                                               " in " + Name(own) + " or " + Name(AccumulateType(own)) +
                                                               ", got " + Name(dtype));
  dtype == own ? fn(T{}) : fn(Compute<T>{});
}

// Casts the new parameter to its copy, for updates whose kernel does not write it.
template <class Rule>
void WriteCopy(const KernelCall& call) {
  if (call.out.size() == Rule::kKept + 1) return;
  KernelCall cast = call;
  static const Attrs none;
  cast.attrs = &none;
  cast.in = call.out.first(1);
  cast.out = call.out.last(1);
  call.context->kernels(DeviceKind::kCuda).Row(Op::kCast).run(cast);
}

template <class Rule>
void UpdateOfTypes(const KernelCall& call) {
  DType own = call.in[0].dtype, kept = Rule::kKept > 0 ? call.in[1].dtype : own, g = call.in[Rule::kKept + 1].dtype;
  for (int i = 1; i < Rule::kKept; i++)
    WEFT_CHECK(call.in[size_t(i) + 1].dtype == kept,
               std::string(Rule::kName) + " on CUDA: expected moments of one dtype");
  DispatchFloating(own, [&](auto t) {
    using T = decltype(t);
    DispatchWider<Rule, T>(kept, own, "moments", [&](auto moment) {
      using M = decltype(moment);
      // Gradients may be narrower than master weights, because they are summed over ranks in precision.reduce.
      if (std::is_same_v<T, float> && g == DType::kBF16) return UpdateAs<Rule, float, float, BF16>(call);
      if (std::is_same_v<T, float> && g == DType::kF16) return UpdateAs<Rule, float, float, F16>(call);
      DispatchWider<Rule, T>(g, own, "the gradient",
                             [&](auto gradient) { UpdateAs<Rule, T, M, decltype(gradient)>(call); });
    });
  });
}

template <class Rule>
void Update(const KernelCall& call) {
  if (call.out[0].NumElements() == 0) return;
  UpdateOfTypes<Rule>(call);
  WriteCopy<Rule>(call);
}

// Many dense f32 parameters, for one launch.
template <class Rule>
struct UpdateTable {
  struct Entry {
    UpdateTensors<Rule::kKept> x;
    int64_t packs;
    PackRows g;
    float weight_decay;
    uint32_t first;  // first block
  };
  static constexpr int kMost = 304;  // kernel arguments take at most 32 KiB
  UpdateSettings<Rule> settings;
  int count = 0;
  uint32_t blocks = 0;
  Entry entries[kMost];
};
inline constexpr int64_t kPacksOfBlock = kUpdateThreads * 4;

// G is the type of gradients, and W that of the copies of parameters or void.
template <class Rule, class G, class W>
__global__ void __launch_bounds__(kUpdateThreads) ManyUpdate(const __grid_constant__ UpdateTable<Rule> all) {
  constexpr int V = kPack<float>;
  auto k = SharedCoefficients<Rule, float>(all.settings);
  const auto& entry = EntryOf(all.entries, all.count, blockIdx.x);
  k.weight_decay = entry.weight_decay;
  int64_t begin = int64_t(blockIdx.x - entry.first) * kPacksOfBlock + threadIdx.x;
#pragma unroll
  for (int64_t i = begin; i < begin + kPacksOfBlock; i += kUpdateThreads) {
    if (i >= entry.packs) return;
    UpdatePack<Rule, float, float, G, W, V>(entry.x, k, i, entry.g.At(i));
  }
}

// The updates of f32 parameters whose gradients have the type G and whose copies have the type W, or which have no
// copies if W is void.
template <class Rule, class G, class W>
class UpdateBatch {
 public:
  explicit UpdateBatch(const KernelCall& first) : context_(first) {}

  // Returns whether the batch takes the call, and then adds it.
  bool Add(const KernelCall& call) {
    if (!Fits(call)) return false;
    std::optional<PackRows> g = DenseRowsOf<Rule>(call, kPack<float>);
    if (!g) return false;
    if (!table_) {
      table_ = std::make_unique<Table>();
      table_->settings = UpdateSettings<Rule>::Of(call);
    }
    int64_t packs = call.out[0].NumElements() / kPack<float>;
    table_->entries[table_->count++] = {UpdateTensors<Rule::kKept>::Of(call), packs, *g,
                                        float(call.attrs->Float("weight_decay")), table_->blocks};
    table_->blocks += uint32_t(CeilDiv(packs, kPacksOfBlock));
    if (table_->count == Table::kMost) Launch();
    return true;
  }
  void Launch() {
    if (!table_) return;
    ManyUpdate<Rule, G, W><<<table_->blocks, kUpdateThreads, 0, DeviceOf(context_).stream()>>>(*table_);
    WEFT_CUDA_LAUNCHED(Rule::kName);
    table_.reset();
  }

 private:
  using Table = UpdateTable<Rule>;
  static_assert(sizeof(Table) <= 32764);

  template <class T>
  static constexpr DType TypeOf() {
    return std::is_same_v<T, BF16> ? DType::kBF16 : DType::kF32;
  }
  bool Fits(const KernelCall& call) const {
    constexpr size_t kResults = Rule::kKept + 1;
    bool of_type = call.in[kResults].dtype == TypeOf<G>();
    for (size_t i = 0; i < kResults; i++)
      of_type &= call.out[i].dtype == DType::kF32 && call.in[i].dtype == DType::kF32;
    if constexpr (std::is_void_v<W>)
      of_type &= call.out.size() == kResults;
    else
      of_type &= call.out.size() > kResults && call.out.back().dtype == TypeOf<W>();
    return of_type && call.out[0].NumElements() > 0 &&
           (!table_ || table_->settings.Serves(UpdateSettings<Rule>::Of(call)));
  }

  const KernelCall& context_;
  std::unique_ptr<Table> table_;
};

template <class Rule>
void UpdateMany(std::span<const KernelCall> calls) {
  std::tuple batches{UpdateBatch<Rule, float, void>(calls[0]), UpdateBatch<Rule, float, BF16>(calls[0]),
                     UpdateBatch<Rule, BF16, void>(calls[0]), UpdateBatch<Rule, BF16, BF16>(calls[0])};
  std::apply(
      [&](auto&... batch) {
        for (const KernelCall& call : calls)
          if (!(batch.Add(call) || ...)) Update<Rule>(call);
        (batch.Launch(), ...);
      },
      batches);
}

}  // namespace weft::cuda
