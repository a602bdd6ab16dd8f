// Scalar functions for device code, under the names that the expressions of core/ir/elementwise_rows.h use.
//
// All but those named Short* are CUDA's accurate functions (1-2 ulp in f32). They live in the namespace of the kernels,
// so that the expressions find them first.
#pragma once
#include <cmath>
#include <cstdint>

namespace weft::cuda {

template <class C>
__device__ __forceinline__ C abs(C a) {
  if constexpr (std::is_integral_v<C>)
    return a < 0 ? -a : a;
  else
    return std::fabs(a);
}
template <class C>
__device__ __forceinline__ C exp(C a) {
  return std::exp(a);
}
template <class C>
__device__ __forceinline__ C tanh(C a) {
  return std::tanh(a);
}
template <class C>
__device__ __forceinline__ C log(C a) {
  return std::log(a);
}
template <class C>
__device__ __forceinline__ C sqrt(C a) {
  return std::sqrt(a);
}
template <class C>
__device__ __forceinline__ C erf(C a) {
  return std::erf(a);
}
// Integers stay as they are.
template <class C>
__device__ __forceinline__ C floor(C a) {
  if constexpr (std::is_integral_v<C>)
    return a;
  else
    return std::floor(a);
}
template <class C>
__device__ __forceinline__ C ceil(C a) {
  if constexpr (std::is_integral_v<C>)
    return a;
  else
    return std::ceil(a);
}
template <class C>
__device__ __forceinline__ C rint(C a) {
  if constexpr (std::is_integral_v<C>)
    return a;
  else
    return std::rint(a);
}
template <class C>
__device__ __forceinline__ C trunc(C a) {
  if constexpr (std::is_integral_v<C>)
    return a;
  else
    return std::trunc(a);
}

// Long and rarely used, so they are called: inlined, a kernel would hold one copy per element of a vector.
template <class C>
__device__ __noinline__ C sin(C a) {
  return std::sin(a);
}
template <class C>
__device__ __noinline__ C cos(C a) {
  return std::cos(a);
}
template <class C>
__device__ __noinline__ C pow(C a, C b) {
  return std::pow(a, b);
}

template <class C>
__device__ __noinline__ C expm1(C a) {
  return std::expm1(a);
}
template <class C>
__device__ __noinline__ C log1p(C a) {
  return std::log1p(a);
}
// The remainder with the divisor's sign, as in Python. An integer divided by 0 gives 0.
template <class C>
__device__ __noinline__ C RemainderOf(C a, C b) {
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
__device__ __noinline__ C FloorDivideOf(C a, C b) {
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

template <class C>
__device__ __forceinline__ C SignOf(C a) {
  return C(a > C(0)) - C(a < C(0));
}

// GELU in its tanh form (Hendrycks, Gimpel 2016): a/2 (1 + tanh u), u = sqrt(2/pi) (a + 0.044715 a^3).
template <class C>
__device__ __forceinline__ C GeluOf(C a) {
  C u = C(0.7978845608028654) * (a + C(0.044715) * a * a * a);
  return C(0.5) * a * (C(1) + tanh(u));
}
template <class C>
__device__ __forceinline__ C GeluDOf(C a) {
  C square = a * a;
  C t = tanh(C(0.7978845608028654) * (a + C(0.044715) * a * square));
  C du = C(0.7978845608028654) * (C(1) + C(3 * 0.044715) * square);
  return C(0.5) * (C(1) + t) + C(0.5) * a * (C(1) - t * t) * du;
}

// GELU and its derivative for results of 16 bits, as a s and s + a s (1 - s) (2 u)' with s = 1 / (1 + exp(-2 u)). They
// take two instructions of the special function unit, while the accurate tanh takes two branches. The relative error
// stays below 2^-20: 2^-22 from ex2, 2^-23 from rcp, and |2 u| 2^-24 from the exponent while s has not vanished. bf16
// rounds at 2^-9. The hardware's tanh would take one instruction, but its error is 2^-11 of 1, which leaves few correct
// bits of 1 + tanh for a < -2.
__device__ __forceinline__ float ShortSigmoid(float negated_log2) {
  float power, s;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(negated_log2));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1.f + power));
  return s;
}
inline constexpr float kGeluRate =
    float(-2 * 1.4426950408889634 * 0.7978845608028654);  // -2 u log2(e) = kGeluRate a + ...
__device__ __forceinline__ float ShortGelu(float a) {
  return a * ShortSigmoid(a * (kGeluRate * 0.044715f * (a * a) + kGeluRate));
}
__device__ __forceinline__ float ShortGeluD(float a) {
  float square = a * a, s = ShortSigmoid(a * (kGeluRate * 0.044715f * square + kGeluRate));
  float slope = float(2 * 3 * 0.044715 * 0.7978845608028654) * square + float(2 * 0.7978845608028654);
  return s + a * s * (1.f - s) * slope;
}

inline constexpr float kSiluRate = -1.4426950408889634f;  // -log2(e)
__device__ __forceinline__ float ShortSilu(float a) { return a * ShortSigmoid(a * kSiluRate); }
__device__ __forceinline__ float ShortSiluD(float a) {
  float s = ShortSigmoid(a * kSiluRate);
  return s + a * s * (1.f - s);
}

// GELU as it is defined: a times the normal distribution, a/2 (1 + erf(a / sqrt(2))).
template <class C>
__device__ __forceinline__ C GeluExactOf(C a) {
  return C(0.5) * a * (C(1) + erf(a * C(0.7071067811865476)));
}
template <class C>
__device__ __forceinline__ C GeluExactDOf(C a) {
  return C(0.5) * (C(1) + erf(a * C(0.7071067811865476))) + C(0.3989422804014327) * a * exp(C(-0.5) * a * a);
}

template <class C>
__device__ __forceinline__ C SiluDOf(C a) {
  C s = C(1) / (C(1) + exp(-a));
  return s * (C(1) + a * (C(1) - s));
}

}  // namespace weft::cuda
