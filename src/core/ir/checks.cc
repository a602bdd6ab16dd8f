#include "weft/core/ir/checks.h"

#include <fmt/format.h>

namespace weft {

std::string ToString(const Var& x) { return fmt::format("{} {}", Name(x.dtype()), ToString(x.shape())); }

void CheckAssigned(const Var& x, const char* what, const Loc& loc) {
  if (!x.defined()) Fail(fmt::format("{} at {}: {}", what, ToString(loc), kEmptyOperand));
}

int CheckedDim(const Var& x, int64_t dim, const char* what, const Loc& loc, int more) {
  CheckAssigned(x, what, loc);
  int rank = x.rank() + more;
  if (dim < -rank || dim >= rank)
    Fail(fmt::format("{} at {}: expected {} of {}, got {}; a negative dim counts from the end", what, ToString(loc),
                     rank ? fmt::format("a dim in [{}, {})", -rank, rank) : "a tensor with dims instead", ToString(x),
                     dim));
  return int(dim < 0 ? dim + rank : dim);
}

}  // namespace weft
