// Shape: the extents of a tensor's dims, outermost first.
#pragma once
#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"

namespace weft {

inline constexpr int kMaxRank = 8;
using Shape = absl::InlinedVector<int64_t, 6>;

int64_t NumElements(const Shape& shape);
std::string ToString(const Shape& shape);  // "[2, 3]"

// Returns `dim` with a negative value resolved (-1 is the last dim). Throws Error if it is outside [-rank, rank).
// `what` names the caller in the message.
int NormalizeDim(int64_t dim, int64_t rank, const char* what);

}  // namespace weft
