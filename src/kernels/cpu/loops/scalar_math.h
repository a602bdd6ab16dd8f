// Scalar functions for kernel loops. abs, exp and tanh of f32 are branch-free, so that a loop over them vectorises;
// their error is at most 2 ulp. The other functions call libm.
//
// They live in the namespace of the kernels, so that the expressions of core/ir/elementwise_rows.h find them before
// those of libm.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace weft::cpu {

inline float abs(float a) { return std::fabs(a); }
inline double abs(double a) { return std::fabs(a); }
inline int64_t abs(int64_t a) { return a < 0 ? -a : a; }

// exp(x) = 2^n exp(r), |r| <= ln(2)/2; exp(r) = 1 + r + r^2 P(r), P interpolated at Chebyshev nodes.
// 2^n is applied as two factors, so that subnormal results and overflow to infinity need no branch.
inline float exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  x = x > 89.0f ? 89.0f : x;
  x = x < -105.0f ? -105.0f : x;
  float shifted = x * 1.44269504f + kRound;
  int32_t n = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  float whole = shifted - kRound;
  float r = x - whole * 0.693359375f;  // the high bits of ln 2, so that the product is exact
  r = r + whole * 2.12194440e-4f;
  float p = 1.392618181e-3f;
  p = p * r + 8.363177630e-3f;
  p = p * r + 4.166655463e-2f;
  p = p * r + 1.666657700e-1f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  int32_t half = n >> 1;
  float low = std::bit_cast<float>((half + 127) << 23), high = std::bit_cast<float>((n - half + 127) << 23);
  return p * low * high;
}
inline double exp(double x) { return std::exp(x); }

// Near 0 it is an odd polynomial, because 1 - 2 / (exp(2x) + 1) would cancel there.
inline float tanh(float x) {
  float a = std::fabs(x), z = x * x;
  float p = 2.292557710e-3f;
  p = p * z - 8.343780383e-3f;
  p = p * z + 2.176886822e-2f;
  p = p * z - 5.395925338e-2f;
  p = p * z + 1.333330353e-1f;
  p = p * z - 3.333333317e-1f;
  float near = x + x * z * p;
  float far = std::copysign(1.0f - 2.0f / (exp(2.0f * a) + 1.0f), x);
  return a < 0.625f ? near : far;
}
inline double tanh(double x) { return std::tanh(x); }

template <class C>
C log(C a) {
  return std::log(a);
}
template <class C>
C sqrt(C a) {
  return std::sqrt(a);
}
template <class C>
C erf(C a) {
  return std::erf(a);
}
template <class C>
C sin(C a) {
  return std::sin(a);
}
template <class C>
C cos(C a) {
  return std::cos(a);
}
template <class C>
C expm1(C a) {
  return std::expm1(a);
}
template <class C>
C log1p(C a) {
  return std::log1p(a);
}
// Integers stay as they are.
template <class C>
C floor(C a) {
  if constexpr (std::is_integral_v<C>)
    return a;
  else
    return std::floor(a);
}
template <class C>
C ceil(C a) {
  if constexpr (std::is_integral_v<C>)
    return a;
  else
    return std::ceil(a);
}
template <class C>
C rint(C a) {
  if constexpr (std::is_integral_v<C>)
    return a;
  else
    return std::nearbyint(a);
}
template <class C>
C trunc(C a) {
  if constexpr (std::is_integral_v<C>)
    return a;
  else
    return std::trunc(a);
}
template <class C>
C pow(C a, C b) {
  return std::pow(a, b);
}

template <class C>
C SignOf(C a) {
  return C(a > C(0)) - C(a < C(0));
}

// The remainder with the divisor's sign, as in Python. An integer divided by 0 gives 0.
template <class C>
C RemainderOf(C a, C b) {
  C rest;
  if constexpr (std::is_integral_v<C>)
    rest = b == 0 || b == -1 ? 0 : a % b;
  else
    rest = std::fmod(a, b);
  return rest != C(0) && (rest < C(0)) != (b < C(0)) ? rest + b : rest;
}
// floor(a / b), computed from the remainder, so that rounding a / b up cannot change it. An integer divided by 0 gives
// 0.
template <class C>
C FloorDivideOf(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    if (b == 0) return 0;
    if (b == -1) return C(0 - std::make_unsigned_t<C>(a));  // the lowest integer wraps around
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
  } else {
    if (b == C(0)) return a / b;
    C rest = std::fmod(a, b), quotient = (a - rest) / b;  // close to a whole number
    if (rest != C(0) && (rest < C(0)) != (b < C(0))) quotient -= C(1);
    if (quotient == C(0)) return std::copysign(C(0), a / b);
    C whole = std::floor(quotient);
    return quotient - whole > C(0.5) ? whole + C(1) : whole;
  }
}

// GELU in its tanh form (Hendrycks, Gimpel 2016): a/2 (1 + tanh u), u = sqrt(2/pi) (a + 0.044715 a^3).
template <class C>
C GeluOf(C a) {
  C u = C(0.7978845608028654) * (a + C(0.044715) * a * a * a);
  return C(0.5) * a * (C(1) + tanh(u));
}
template <class C>
C GeluDOf(C a) {
  C square = a * a;
  C t = tanh(C(0.7978845608028654) * (a + C(0.044715) * a * square));
  C du = C(0.7978845608028654) * (C(1) + C(3 * 0.044715) * square);
  return C(0.5) * (C(1) + t) + C(0.5) * a * (C(1) - t * t) * du;
}
// GELU as it is defined: a times the normal distribution, a/2 (1 + erf(a / sqrt(2))).
template <class C>
C GeluExactOf(C a) {
  return C(0.5) * a * (C(1) + erf(a * C(0.7071067811865476)));
}
template <class C>
C GeluExactDOf(C a) {
  return C(0.5) * (C(1) + erf(a * C(0.7071067811865476))) + C(0.3989422804014327) * a * exp(C(-0.5) * a * a);
}
template <class C>
C SiluDOf(C a) {
  C s = C(1) / (C(1) + exp(-a));
  return s * (C(1) + a * (C(1) - s));
}

}  // namespace weft::cpu
