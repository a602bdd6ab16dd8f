#include "weft/core/base/dtype.h"

#include <array>

namespace weft {
namespace {
struct Row {
  const char* name;
  size_t size;
  bool floating;
};
constexpr std::array<Row, kNumDTypes> kRows{{{"f64", 8, true},
                                             {"f32", 4, true},
                                             {"bf16", 2, true},
                                             {"f16", 2, true},
                                             {"i64", 8, false},
                                             {"i32", 4, false},
                                             {"u8", 1, false},
                                             {"bool", 1, false}}};
}  // namespace

size_t SizeOf(DType dtype) { return kRows[size_t(dtype)].size; }
const char* Name(DType dtype) { return kRows[size_t(dtype)].name; }
bool IsFloating(DType dtype) { return kRows[size_t(dtype)].floating; }
DType AccumulateType(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (int i = 0; i < kNumDTypes; i++)
    if (name == kRows[size_t(i)].name) return DType(i);
  return std::nullopt;
}

F16::F16(float value) {
  uint32_t u = std::bit_cast<uint32_t>(value);
  uint32_t sign = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  if (u >= 0x7f800000u) {  // infinity or NaN
    bits = uint16_t(sign | 0x7c00u | (u > 0x7f800000u ? 0x200u : 0u));
  } else if (u >= 0x477ff000u) {  // rounds to infinity
    bits = uint16_t(sign | 0x7c00u);
  } else if (u < 0x38800000u) {  // subnormal: the addition rounds the mantissa at the right bit
    float shifted = std::bit_cast<float>(u) + std::bit_cast<float>(0x3f000000u);
    bits = uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  } else {
    u += 0xfffu + ((u >> 13) & 1);
    bits = uint16_t(sign | ((u - 0x38000000u) >> 13));
  }
}

F16::operator float() const {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x400u) return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
  float magnitude = float(rest) * 0x1p-24f;  // subnormal
  return sign ? -magnitude : magnitude;
}

}  // namespace weft
