// Shape: the extents of a tensor's dims, outermost first.
#pragma once
#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"

namespace weft {

inline constexpr int kMaxRank = 8;
using Shape = absl::InlinedVector<int64_t, 6>;

// The limit on the elements of a tensor, and on the parameters of a model. Below it every product of sizes in a step
// fits in 64 bits: 1e17 elements are 8e17 bytes in f64, and a run holds a few times its parameters.
inline constexpr int64_t kMostElements = 100'000'000'000'000'000;

int64_t NumElements(const Shape& shape);
std::string ToString(const Shape& shape);  // "[2, 3]"
// Returns why no tensor can have this shape: "expected ..., got ...; ...". Returns "" if one can.
std::string ShapeFault(const Shape& shape);

// Returns `dim` with a negative value resolved (-1 is the last dim). Throws Error if it is outside [-rank, rank).
// `what` names the caller in the message.
int NormalizeDim(int64_t dim, int64_t rank, const char* what);

}  // namespace weft
