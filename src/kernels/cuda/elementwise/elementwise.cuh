// The definition of RunElementwise, for the files that instantiate it.
#pragma once
#include "weft/core/ir/integer_ops.h"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/loops/map.cuh"
#include "weft/kernels/cuda/loops/scalar_math.cuh"

namespace weft::cuda {

// The value column of core/ir/elementwise_rows.h as a function.
template <Op op>
struct Body;
#define WEFT_BODY(Name, operands, Result, value)                                                                   \
  template <>                                                                                                      \
  struct Body<Op::k##Name> {                                                                                       \
    static constexpr int kOperands = operands;                                                                     \
    template <class C>                                                                                             \
    __device__ static __forceinline__ auto Value([[maybe_unused]] C a, [[maybe_unused]] C b, [[maybe_unused]] C k) \
        -> Result {                                                                                                \
      return Result(value);                                                                                        \
    }                                                                                                              \
  };
#define WEFT_ONE(Name, text, linear, integers, value, ...) WEFT_BODY(Name, 1, C, value)
#define WEFT_TWO(Name, text, linear, integers, value, ...) WEFT_BODY(Name, 2, C, value)
#define WEFT_TEST(Name, text, value) WEFT_BODY(Name, 2, bool, value)
WEFT_UNARY_OPS(WEFT_ONE)
WEFT_SCALAR_OPS(WEFT_ONE)
WEFT_BINARY_OPS(WEFT_TWO)
WEFT_COMPARE_OPS(WEFT_TEST)
WEFT_LOGIC_OPS(WEFT_TEST)
#undef WEFT_ONE
#undef WEFT_TWO
#undef WEFT_TEST
#undef WEFT_BODY

// Like Body, for operands and results of 16 bits, where less accurate functions suffice.
template <Op op>
struct ShortBody : Body<op> {};
#define WEFT_SHORT(Name, value)                                                                               \
  template <>                                                                                                 \
  struct ShortBody<Op::k##Name> : Body<Op::k##Name> {                                                         \
    __device__ static __forceinline__ float Value(float a, [[maybe_unused]] float b, float) { return value; } \
  };
WEFT_SHORT(Gelu, ShortGelu(a))
WEFT_SHORT(GeluD, ShortGeluD(a))
WEFT_SHORT(GeluGrad, a* ShortGeluD(b))
WEFT_SHORT(Silu, ShortSilu(a))
WEFT_SHORT(SiluD, ShortSiluD(a))
WEFT_SHORT(SwiGlu, ShortSilu(a) * b)
#undef WEFT_SHORT
template <Op op, class T>
using BodyOf = std::conditional_t<std::is_same_v<T, BF16> || std::is_same_v<T, F16>, ShortBody<op>, Body<op>>;

// All integers compute in i64, as on the CPU.
template <class T>
using ValueOf = std::conditional_t<std::is_integral_v<T>, int64_t, Compute<T>>;
template <Op op, class T>
using ResultOf =
    std::conditional_t<std::is_same_v<bool, decltype(Body<op>::Value(ValueOf<T>(), ValueOf<T>(), ValueOf<T>()))>, bool,
                       T>;

template <Op op, class T>
struct Apply {
  using C = ValueOf<T>;
  C k;
  __device__ __forceinline__ ResultOf<op, T> operator()(T a, T b, None) const {
    return Narrow<ResultOf<op, T>>(BodyOf<op, T>::Value(C(Widen(a)), C(Widen(b)), k));
  }
  __device__ __forceinline__ ResultOf<op, T> operator()(T a, None, None) const {
    return Narrow<ResultOf<op, T>>(BodyOf<op, T>::Value(C(Widen(a)), C(0), k));
  }
};

constexpr bool IsComparison(Op op) {
  switch (op) {
#define WEFT_CASE(Name, ...) case Op::k##Name:
    WEFT_COMPARE_OPS(WEFT_CASE)
#undef WEFT_CASE
    return true;
    default:
      return false;
  }
}

// Types that have the path with vectors: those that models compute in, and masks.
template <class T>
inline constexpr bool kFast = !std::is_same_v<T, double> && (!std::is_integral_v<T> || std::is_same_v<T, bool>);

template <class T>
constexpr bool Takes(Op op) {
  if (op == Op::kAnd || op == Op::kOr) return std::is_same_v<T, bool>;
  return !std::is_integral_v<T> || TakesIntegers(op) || IsComparison(op);
}

template <Op op, class T>
void RunElementwise(const KernelCall& call) {
  using R = ResultOf<op, T>;
  if constexpr (!Takes<T>(op)) {
    RefuseType(op, call.in[0].dtype, op == Op::kAnd || op == Op::kOr ? "bool" : "a float");
  } else {
    double k = call.attrs && call.attrs->Has("k") ? call.attrs->Float("k") : 0;
    Apply<op, T> fn{ValueOf<T>(k)};
    if constexpr (Body<op>::kOperands == 1)
      Map<kFast<T>, R, T>(call, Name(op), fn, call.out[0], {&call.in[0]});
    else
      Map<kFast<T>, R, T, T>(call, Name(op), fn, call.out[0], {&call.in[0], &call.in[1]});
  }
}

}  // namespace weft::cuda
