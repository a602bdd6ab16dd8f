// Element types, their sizes and names, and the two 16-bit floats as storage types.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft {

enum class DType : uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU8, kBool };
inline constexpr int kNumDTypes = 8;

size_t SizeOf(DType dtype);                            // bytes of one element
const char* Name(DType dtype);                         // "f32"
std::optional<DType> DTypeFromName(std::string_view);  // the inverse of Name
bool IsFloating(DType dtype);                          // f64 f32 bf16 f16
DType AccumulateType(DType dtype);                     // f64 for f64, else f32: products, norms and losses sum in it

// bfloat16: the upper half of an f32. Rounds to nearest even; NaN stays NaN.
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  explicit BF16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? uint16_t((u >> 16) | 0x40) : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

// IEEE binary16. Rounds to nearest even; overflow becomes infinity.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  explicit F16(float value);
  explicit operator float() const;
};

// Calls fn with a value of the element type: Dispatch(dtype, [&](auto zero) { using T = decltype(zero); ... }).
template <class Fn>
decltype(auto) DispatchFloating(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kF64:
      return fn(double{});
    case DType::kBF16:
      return fn(BF16{});
    case DType::kF16:
      return fn(F16{});
    default:
      return fn(float{});
  }
}
template <class Fn>
decltype(auto) Dispatch(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kI64:
      return fn(int64_t{});
    case DType::kI32:
      return fn(int32_t{});
    case DType::kU8:
      return fn(uint8_t{});
    case DType::kBool:
      return fn(bool{});
    default:
      return DispatchFloating(dtype, fn);
  }
}

// The type in which a kernel computes on T: double for double, float for the other floats, T itself for integers.
template <class T>
struct ComputeOf {
  using type = T;
};
template <>
struct ComputeOf<BF16> {
  using type = float;
};
template <>
struct ComputeOf<F16> {
  using type = float;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

}  // namespace weft
