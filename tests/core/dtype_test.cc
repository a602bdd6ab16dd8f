// The 16-bit floats, tested over all their values. Conversion to f32 and back is exact, and every tie between two
// neighbours rounds to the even one.
#include "weft/core/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

template <class T>
struct Format;
template <>
struct Format<BF16> {
  static constexpr int kMantissa = 7, kExponent = 8;
};
template <>
struct Format<F16> {
  static constexpr int kMantissa = 10, kExponent = 5;
};

template <class T>
T FromBits(uint32_t bits) {
  T value;
  value.bits = uint16_t(bits);
  return value;
}

// Returns the value of the bits by the definition of IEEE 754.
template <class T>
double Meaning(uint32_t bits) {
  constexpr int m = Format<T>::kMantissa, e = Format<T>::kExponent, bias = (1 << (e - 1)) - 1;
  int exponent = int(bits >> m) & ((1 << e) - 1), fraction = int(bits) & ((1 << m) - 1);
  double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << e) - 1) return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - m);
  return sign * std::ldexp(fraction + (1 << m), exponent - bias - m);
}

template <class T>
class Float16 : public testing::Test {};
using Formats = testing::Types<BF16, F16>;
TYPED_TEST_SUITE(Float16, Formats);

TYPED_TEST(Float16, EveryValueMeansWhatIeeeSaysAndRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; bits++) {
    float value = float(FromBits<TypeParam>(bits));
    double want = Meaning<TypeParam>(bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(float(TypeParam(value)))) << bits;
      continue;
    }
    ASSERT_EQ(double(value), want) << bits;
    ASSERT_EQ(std::signbit(value), bits >> 15) << bits;
    ASSERT_EQ(TypeParam(value).bits, bits);
  }
}

// For every pair of neighbours, their midpoint rounds to the even one, and the f32 values next to the midpoint round to
// the nearer one.
TYPED_TEST(Float16, RoundsToNearestEven) {
  uint32_t infinity = ((1u << Format<TypeParam>::kExponent) - 1) << Format<TypeParam>::kMantissa;
  for (uint32_t sign : {0u, 0x8000u})
    for (uint32_t bits = 0; bits + 1 < infinity; bits++) {
      uint32_t low = bits | sign, high = (bits + 1) | sign, even = bits % 2 ? high : low;
      double a = Meaning<TypeParam>(low), b = Meaning<TypeParam>(high);
      float tie = float((a + b) / 2);
      if (double(tie) != (a + b) / 2) continue;  // f32 cannot hold this midpoint: it lies below f32's subnormals
      float outward = sign ? -INFINITY : INFINITY;
      ASSERT_EQ(TypeParam(tie).bits, even) << low;
      ASSERT_EQ(TypeParam(std::nextafter(tie, 0.0f)).bits, low) << low;
      ASSERT_EQ(TypeParam(std::nextafter(tie, outward)).bits, high) << low;
    }
}

TYPED_TEST(Float16, OverflowIsInfinityFromHalfAStepAboveTheLargest) {
  uint32_t infinity = ((1u << Format<TypeParam>::kExponent) - 1) << Format<TypeParam>::kMantissa;
  double largest = Meaning<TypeParam>(infinity - 1), step = largest - Meaning<TypeParam>(infinity - 2);
  float limit = float(largest + step / 2);
  EXPECT_EQ(TypeParam(limit).bits, infinity);
  EXPECT_EQ(TypeParam(std::nextafter(limit, 0.0f)).bits, infinity - 1);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits, infinity);
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::infinity()).bits, infinity | 0x8000u);
}

// A NaN whose payload is only in the low bits must not become infinity.
TYPED_TEST(Float16, NanStaysNan) {
  for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xff800001u, 0x7fffffffu})
    EXPECT_TRUE(std::isnan(float(TypeParam(std::bit_cast<float>(bits))))) << bits;
}

TEST(DType, NamesAndSizes) {
  for (int i = 0; i < kNumDTypes; i++) {
    DType dtype = DType(i);
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
    EXPECT_EQ(Dispatch(dtype, [](auto zero) { return sizeof(zero); }), SizeOf(dtype)) << Name(dtype);
    bool floating = Dispatch(dtype, [](auto zero) { return !std::is_integral_v<decltype(zero)>; });
    EXPECT_EQ(floating, IsFloating(dtype)) << Name(dtype);
  }
  EXPECT_FALSE(DTypeFromName("float"));
  EXPECT_EQ(AccumulateType(DType::kF64), DType::kF64);
  for (DType narrow : {DType::kF32, DType::kBF16, DType::kF16}) EXPECT_EQ(AccumulateType(narrow), DType::kF32);
}

}  // namespace
}  // namespace weft
