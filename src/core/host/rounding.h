// Division that rounds up, and multiples. Operands are not negative.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft {

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }
constexpr size_t RoundUpBytes(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace weft
