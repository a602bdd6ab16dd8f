#include "weft/dist/group/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace weft {
namespace {

constexpr int64_t kBlock = 1024;  // elements per block; the accumulators stay in the L1 cache

// Padding is undefined and is reduced too, so integers must wrap and bools must be read as bytes.
template <class T>
T Add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a + b;
  else
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
}
template <class T>
T Max(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
T Min(T a, T b) {
  return a < b || a != a ? a : b;
}

template <class T, class A, class Fn>
void ReduceAs(std::span<const void* const> inputs, void* out, int64_t count, Fn fn) {
  A acc[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t n = std::min(kBlock, count - begin);
    const T* first = static_cast<const T*>(inputs[0]) + begin;
    for (int64_t i = 0; i < n; i++) acc[i] = A(first[i]);
    for (const void* input : inputs.subspan(1)) {
      const T* x = static_cast<const T*>(input) + begin;
      for (int64_t i = 0; i < n; i++) acc[i] = fn(acc[i], A(x[i]));
    }
    T* y = static_cast<T*>(out) + begin;
    for (int64_t i = 0; i < n; i++) y[i] = T(acc[i]);
  }
}

void ReduceBools(std::span<const void* const> inputs, void* out, int64_t count, ReduceOp op) {
  if (op == ReduceOp::kMin)
    ReduceAs<uint8_t, uint8_t>(inputs, out, count, [](uint8_t a, uint8_t b) { return uint8_t(a & b); });
  else
    ReduceAs<uint8_t, uint8_t>(inputs, out, count, [](uint8_t a, uint8_t b) { return uint8_t(a | b); });
}

}  // namespace

void ReduceInRankOrder(std::span<const void* const> inputs, void* out, int64_t count, DType dtype, ReduceOp op) {
  if (count == 0) return;
  if (inputs.size() == 1) {
    if (inputs[0] != out) std::memcpy(out, inputs[0], size_t(count) * SizeOf(dtype));
    return;
  }
  if (dtype == DType::kBool) return ReduceBools(inputs, out, count, op);
  Dispatch(dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Compute<T>;
    if constexpr (!std::is_same_v<T, bool>) {
      switch (op) {
        case ReduceOp::kSum:
          return ReduceAs<T, A>(inputs, out, count, Add<A>);
        case ReduceOp::kMax:
          return ReduceAs<T, A>(inputs, out, count, Max<A>);
        case ReduceOp::kMin:
          return ReduceAs<T, A>(inputs, out, count, Min<A>);
      }
    }
  });
}

}  // namespace weft
