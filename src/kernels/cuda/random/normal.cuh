// NormalFromBits of core/base/rng.cc, operation by operation. The intrinsics fix every rounding, so that the compiler
// fuses none and the bits are those of the CPU.
#pragma once
#include "weft/kernels/cuda/loops/philox.cuh"

namespace weft::cuda {

template <int N>
__device__ __forceinline__ double Horner(const double (&c)[N], double x) {
  double y = c[N - 1];
#pragma unroll
  for (int i = N - 2; i >= 0; i--) y = __fma_rn(y, x, c[i]);
  return y;
}

// Returns the natural logarithm of a positive normal number: 2 atanh((m-1)/(m+1)) + e ln 2.
__device__ __forceinline__ double LogOf(double x) {
  uint64_t bits = uint64_t(__double_as_longlong(x));
  int exponent = int(bits >> 52) - 1023;
  double m = __longlong_as_double((long long)((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u));
  if (m > 1.4142135623730951) {
    m = __dmul_rn(m, 0.5);
    exponent++;
  }
  constexpr double kSeries[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  double f = __ddiv_rn(__dadd_rn(m, -1.0), __dadd_rn(m, 1.0));
  double log_m = __dmul_rn(__dmul_rn(2.0, f), Horner(kSeries, __dmul_rn(f, f)));
  return __fma_rn(double(exponent), 0.6931471805599453, log_m);
}

// Standard normal by inversion (Wichura, algorithm AS 241).
__device__ inline double NormalFromBits(uint32_t bits) {
  constexpr double kA[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                           1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                           3.3430575583588128105e4, 2.5090809287301226727e3};
  constexpr double kB[] = {1.0,
                           4.2313330701600911252e1,
                           6.8718700749205790830e2,
                           5.3941960214247511077e3,
                           2.1213794301586595867e4,
                           3.9307895800092710610e4,
                           2.8729085735721942674e4,
                           5.2264952788528545610e3};
  constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                           3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                           2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr double kD[] = {1.0,
                           2.05319162663775882187e0,
                           1.67638483018380384940e0,
                           6.89767334985100004550e-1,
                           1.48103976427480074590e-1,
                           1.51986665636164571966e-2,
                           5.47593808499534494600e-4,
                           1.05075007164441684324e-9};
  double q = __dadd_rn(UniformFromBits(bits), -0.5);
  if (fabs(q) <= 0.425) {
    double r = __fma_rn(-q, q, 0.180625);
    return __ddiv_rn(__dmul_rn(q, Horner(kA, r)), Horner(kB, r));
  }
  double tail = q < 0 ? UniformFromBits(bits) : UniformFromBits(~bits);
  double r = __dadd_rn(__dsqrt_rn(-LogOf(tail)), -1.6);
  double z = __ddiv_rn(Horner(kC, r), Horner(kD, r));
  return q < 0 ? -z : z;
}

}  // namespace weft::cuda
