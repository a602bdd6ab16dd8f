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

// An empty dim counts as one element, so that the product of any of the other extents fits too.
std::string ShapeFault(const Shape& shape) {
  if (shape.size() > size_t(kMaxRank))
    return fmt::format("expected at most {} dims, got {}; merge some", kMaxRank, ToString(shape));
  int64_t room = kMostElements;
  for (int64_t extent : shape) {
    if (extent < 0) return fmt::format("expected extents >= 0, got {}; no extent is inferred", ToString(shape));
    if (extent > 1) room /= extent;
  }
  if (room == 0)
    return fmt::format("expected at most {:.0e} elements, got {}; lower an extent", double(kMostElements),
                       ToString(shape));
  return "";
}

std::string ToString(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int NormalizeDim(int64_t dim, int64_t rank, const char* what) {
  WEFT_CHECK(dim >= -rank && dim < rank, fmt::format("{}: expected a dim in [{}, {}), got {}", what, -rank, rank, dim));
  return int(dim < 0 ? dim + rank : dim);
}

}  // namespace weft
