// Compiled with -ffp-contract=off (src/core/CMakeLists.txt), so each rounding is explicit in the code.
#include "weft/core/base/rng.h"

#include <bit>
#include <cmath>

namespace weft {
namespace {

// The finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

template <size_t N>
double Horner(const double (&c)[N], double x) {
  double y = c[N - 1];
  for (size_t i = N - 1; i-- > 0;) y = std::fma(y, x, c[i]);
  return y;
}

// Returns the natural logarithm of a positive normal number: 2 atanh((m-1)/(m+1)) + e ln 2, |error| below 1e-15.
double Log(double x) {
  uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = int(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    exponent++;
  }
  static constexpr double kSeries[] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                       1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  double f = (m - 1.0) / (m + 1.0);
  double log_m = 2.0 * f * Horner(kSeries, f * f);
  return std::fma(double(exponent), 0.6931471805599453, log_m);
}

}  // namespace

uint64_t RandomKey(uint64_t seed, RandomPhase phase, std::string_view path, uint64_t ordinal) {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a of the path
  for (char ch : path) hash = (hash ^ uint8_t(ch)) * 0x100000001B3u;
  return Mix(Mix(Mix(seed) ^ hash) ^ (uint64_t(phase) << 56 | ordinal));
}

double NormalFromBits(uint32_t bits) {
  static constexpr double kA[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                  1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                  3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr double kB[] = {1.0,
                                  4.2313330701600911252e1,
                                  6.8718700749205790830e2,
                                  5.3941960214247511077e3,
                                  2.1213794301586595867e4,
                                  3.9307895800092710610e4,
                                  2.8729085735721942674e4,
                                  5.2264952788528545610e3};
  static constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                  3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kD[] = {1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  double q = UniformFromBits(bits) - 0.5;
  if (std::fabs(q) <= 0.425) {
    double r = std::fma(-q, q, 0.180625);
    return q * Horner(kA, r) / Horner(kB, r);
  }
  // The smallest tail is 2^-33. Its r is below 5, so the third branch of AS 241 is never reached.
  double tail = q < 0 ? UniformFromBits(bits) : UniformFromBits(~bits);
  double r = std::sqrt(-Log(tail)) - 1.6;
  double z = Horner(kC, r) / Horner(kD, r);
  return q < 0 ? -z : z;
}

}  // namespace weft
