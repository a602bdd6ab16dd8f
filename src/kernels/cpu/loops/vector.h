// Vectors of 32 bytes by the compiler's vector extension: one register of AVX2, or two of NEON.
//
//   Vector<float> x = LoadVector(p); StoreVector(q, x * 2.0f);
#pragma once
#include <cmath>
#include <cstdint>

namespace weft::cpu {

template <class C>
struct VectorTypes {
  typedef C Value __attribute__((vector_size(32)));
  typedef C Unaligned __attribute__((vector_size(32), aligned(sizeof(C)), may_alias));  // loads from any array of C
};
template <class C>
using Vector = typename VectorTypes<C>::Value;
template <class C>
inline constexpr int64_t kWidth = 32 / int64_t(sizeof(C));  // lanes per vector

template <class C>
Vector<C> LoadVector(const C* p) {
  return *reinterpret_cast<const typename VectorTypes<C>::Unaligned*>(p);
}
template <class C>
void StoreVector(C* p, Vector<C> x) {
  *reinterpret_cast<typename VectorTypes<C>::Unaligned*>(p) = x;
}
template <class C>
Vector<C> Splat(C value) {
  return value - Vector<C>{};
}

// Returns the dot product of two rows, accumulated in one vector of partial sums.
template <class C>
C Dot(const C* a, const C* b, int64_t n) {
  Vector<C> sums{};
  int64_t i = 0;
  for (; i + kWidth<C> <= n; i += kWidth<C>) sums += LoadVector(a + i) * LoadVector(b + i);
  C sum = 0;
  for (; i < n; i++) sum += a[i] * b[i];
  for (int64_t lane = 0; lane < kWidth<C>; lane++) sum += sums[lane];
  return sum;
}

// Returns exp(x). Requires x <= 0, or x so small that exp(x) is finite. Below 2^-126.5 the result is 0, so exp(-inf) is
// exactly 0. The polynomial is that of scalar_math.h.
inline Vector<float> ExpOfScore(Vector<float> x) {
  using Int = VectorTypes<int32_t>::Value;
  const float kRound = 12582912.0f;
  const Vector<float> lowest = Splat(-88.0f);
  x = x < lowest ? lowest : x;
  Vector<float> shifted = x * 1.44269504f + kRound;
  Int n = (Int)shifted - 0x4B400000;  // the bits of kRound
  Vector<float> whole = shifted - kRound;
  Vector<float> r = x - whole * 0.693359375f;
  r = r + whole * 2.12194440e-4f;
  Vector<float> p = 1.392618181e-3f * r + 8.363177630e-3f;
  p = p * r + 4.166655463e-2f;
  p = p * r + 1.666657700e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  return p * (Vector<float>)((n + 127) << 23);
}
inline Vector<double> ExpOfScore(Vector<double> x) {
  for (int i = 0; i < 4; i++) x[i] = std::exp(x[i]);
  return x;
}

}  // namespace weft::cpu
