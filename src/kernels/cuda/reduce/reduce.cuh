// The folds of reductions: identity element, join, and the type of the running value. Sums and products of floats run
// in f64, as on the CPU, so that the way in which terms are spread over threads and ranks changes at most the last
// rounding. A few neighbouring 16-bit terms are summed in f32 first: its 24 bits hold such sums, and a conversion costs
// as much as 8 additions.
#pragma once
#include <cfloat>
#include <climits>
#include <limits>

#include "weft/kernels/cuda/loops/convert.cuh"

namespace weft::cuda {

enum class Kind { kSum, kMax, kMin, kProd };

// All integers compute in i64.
template <class T>
using FoldOf = std::conditional_t<std::is_integral_v<T>, int64_t, Compute<T>>;
template <Kind kind, class T>
using Running =
    std::conditional_t<!std::is_integral_v<T> && (kind == Kind::kSum || kind == Kind::kProd), double, FoldOf<T>>;

template <Kind kind, class A>
__device__ __forceinline__ A Identity() {
  if constexpr (kind == Kind::kSum)
    return A(0);
  else if constexpr (kind == Kind::kProd)
    return A(1);
  else if constexpr (std::is_integral_v<A>)
    return kind == Kind::kMax ? A(LLONG_MIN) : A(LLONG_MAX);
  else
    return kind == Kind::kMax ? -A(INFINITY) : A(INFINITY);
}

// The identity as a term of type T.
template <Kind kind, class T>
__device__ __forceinline__ T Neutral() {
  if constexpr (!std::is_integral_v<T>)
    return Narrow<T>(Identity<kind, FoldOf<T>>());
  else if constexpr (kind == Kind::kMax)
    return std::numeric_limits<T>::min();
  else if constexpr (kind == Kind::kMin)
    return std::numeric_limits<T>::max();
  else
    return T(kind == Kind::kProd);
}

// NaN propagates: max and min take a NaN and then keep it.
template <Kind kind>
struct Join {
  template <class A>
  __device__ __forceinline__ A operator()(A a, A b) const {
    if constexpr (kind == Kind::kSum)
      return a + b;
    else if constexpr (kind == Kind::kProd)
      return a * b;
    else if constexpr (kind == Kind::kMax)
      return b > a || b != b ? b : a;
    else
      return b < a || b != b ? b : a;
  }
};

template <Kind kind, class T>
__device__ __forceinline__ Running<kind, T> Term(T value) {
  return Running<kind, T>(FoldOf<T>(Widen(value)));
}
// Joins a few terms before they are joined to the running value.
template <Kind kind, class T, int N>
__device__ __forceinline__ Running<kind, T> JoinOf(const T (&values)[N]) {
  if constexpr (kind == Kind::kSum && (std::is_same_v<T, BF16> || std::is_same_v<T, F16>)) {
    float sum = Widen(values[0]);
#pragma unroll
    for (int n = 1; n < N; n++) sum += Widen(values[n]);
    return sum;
  } else {
    Running<kind, T> total = Term<kind>(values[0]);
#pragma unroll
    for (int n = 1; n < N; n++) total = Join<kind>()(total, Term<kind>(values[n]));
    return total;
  }
}
// Rounds to the compute type first, as the CPU does.
template <class T, class A>
__device__ __forceinline__ T Result(A total) {
  return Narrow<T>(FoldOf<T>(total));
}

}  // namespace weft::cuda
