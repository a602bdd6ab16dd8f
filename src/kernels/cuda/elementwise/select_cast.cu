// Select, Not, Cast and StopGradient: elementwise ops with mixed dtypes.
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/copy.h"
#include "weft/kernels/cuda/loops/map.cuh"

namespace weft::cuda {
namespace {

struct Choose {
  template <class Bits>
  __device__ __forceinline__ Bits operator()(bool c, Bits a, Bits b) const {
    return c ? a : b;
  }
};

// Moves elements by size, whatever their dtype.
template <class Bits>
void SelectBits(const KernelCall& call) {
  Map<true, Bits, bool, Bits, Bits>(call, "select", Choose{}, call.out[0], {&call.in[0], &call.in[1], &call.in[2]});
}

void Select(const KernelCall& call) {
  switch (SizeOf(call.out[0].dtype)) {
    case 1:
      return SelectBits<uint8_t>(call);
    case 2:
      return SelectBits<uint16_t>(call);
    case 4:
      return SelectBits<uint32_t>(call);
    default:
      return SelectBits<uint64_t>(call);
  }
}

template <class To>
struct Convert {
  template <class From>
  __device__ __forceinline__ To operator()(From a, None, None) const {
    return Narrow<To>(Widen(a));
  }
};

template <class T>
inline constexpr bool kTrains = std::is_same_v<T, float> || std::is_same_v<T, BF16> || std::is_same_v<T, F16>;

void Cast(const KernelCall& call) {
  DType from_type = call.in[0].dtype, to_type = call.out[0].dtype;
  if (from_type == to_type) return CopyBox(call, call.out[0], call.in[0]);
  Dispatch(from_type, [&](auto from) {
    Dispatch(to_type, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      constexpr bool fast = kTrains<To> && (kTrains<From> || std::is_same_v<From, bool>);
      if constexpr (!std::is_same_v<From, To>)
        Map<fast, To, From>(call, "cast", Convert<To>{}, call.out[0], {&call.in[0]});
    });
  });
}

struct Negate {
  __device__ __forceinline__ bool operator()(bool a, None, None) const { return !a; }
};

void Not(const KernelCall& call) {
  if (call.in[0].dtype != DType::kBool) RefuseType(Op::kNot, call.in[0].dtype, "bool");
  Map<true, bool, bool>(call, "not", Negate{}, call.out[0], {&call.in[0]});
}

void StopGradient(const KernelCall& call) {
  if (call.out[0].data != call.in[0].data) CopyBox(call, call.out[0], call.in[0]);
}

}  // namespace

void AddSelectAndCast(KernelTable& table) {
  SetRun(table, Op::kSelect, &Select);
  SetRun(table, Op::kCast, &Cast);
  SetRun(table, Op::kNot, &Not);
  SetRun(table, Op::kStopGradient, &StopGradient);
}

}  // namespace weft::cuda
