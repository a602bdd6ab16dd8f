#include "weft/core/base/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/core/base/error.h"

namespace weft {

int64_t NumElements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

std::string ToString(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int NormalizeDim(int64_t dim, int64_t rank, const char* what) {
  WEFT_CHECK(dim >= -rank && dim < rank, fmt::format("{}: expected a dim in [{}, {}), got {}", what, -rank, rank, dim));
  return int(dim < 0 ? dim + rank : dim);
}

}  // namespace weft
