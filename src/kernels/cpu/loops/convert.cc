#include "weft/kernels/cpu/loops/convert.h"

#include <bit>
#include <cstring>

namespace weft::cpu {
namespace {

// _Float16, the compiler's half type, vectorises and converts in one instruction if the processor has it.
float Widen(F16 v) { return float(std::bit_cast<_Float16>(v)); }
float Widen(BF16 v) { return float(v); }
template <class T>
T Widen(T v) {
  return v;
}

template <class T, class C>
T Narrow(C v) {
  if constexpr (std::is_same_v<T, F16>)
    return std::bit_cast<F16>(_Float16(float(v)));
  else if constexpr (std::is_same_v<T, BF16>)
    return BF16(float(v));
  else if constexpr (std::is_same_v<T, bool>)
    return v != C(0);
  else
    return T(v);
}

template <class T, class C>
void Load(const void* source, int64_t stride, int64_t n, C* tile) {
  const T* x = static_cast<const T*>(source);
  if (stride == 1) {
    if constexpr (std::is_same_v<T, C>) {
      std::memcpy(tile, x, size_t(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; i++) tile[i] = C(Widen(x[i]));
    }
  } else if (stride == 0) {
    C value = n ? C(Widen(x[0])) : C(0);
    for (int64_t i = 0; i < n; i++) tile[i] = value;
  } else {
    for (int64_t i = 0; i < n; i++) tile[i] = C(Widen(x[i * stride]));
  }
}

template <class T, class C>
void Store(const C* tile, int64_t n, int64_t stride, void* target) {
  T* y = static_cast<T*>(target);
  if (stride == 1) {
    for (int64_t i = 0; i < n; i++) y[i] = Narrow<T>(tile[i]);
  } else {
    for (int64_t i = 0; i < n; i++) y[i * stride] = Narrow<T>(tile[i]);
  }
}

}  // namespace

template <class C>
LoadFn<C> Loader(DType dtype) {
  return Dispatch(dtype, [](auto zero) -> LoadFn<C> { return &Load<decltype(zero), C>; });
}
template <class C>
StoreFn<C> Storer(DType dtype) {
  return Dispatch(dtype, [](auto zero) -> StoreFn<C> { return &Store<decltype(zero), C>; });
}

template LoadFn<float> Loader<float>(DType);
template LoadFn<double> Loader<double>(DType);
template LoadFn<int64_t> Loader<int64_t>(DType);
template StoreFn<float> Storer<float>(DType);
template StoreFn<double> Storer<double>(DType);
template StoreFn<int64_t> Storer<int64_t>(DType);

}  // namespace weft::cpu
