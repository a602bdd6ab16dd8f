// Checks of builders, which have no node yet, and texts of their errors. Each check throws Error with the user's line.
#pragma once
#include <string>

#include "weft/core/ir/node.h"

namespace weft {

inline constexpr const char* kEmptyOperand =
    "an operand is empty (a Var that was never assigned); assign it before this line";

std::string ToString(const Var& x);  // "f32 [3, 4]"

// `what` is the name of the op or module. x must not be empty.
void CheckAssigned(const Var& x, const char* what, const Loc& loc);
// Returns the dim counted from 0. It must be one of x, to which `more` dims are about to be added.
int CheckedDim(const Var& x, int64_t dim, const char* what, const Loc& loc, int more = 0);
// Whether p can be the share of elements that are dropped: rounded to a multiple of 2^-16, it must be in [0, 1).
inline bool IsDropout(double p) { return p >= 0 && p < 1 - 0x1p-17; }

}  // namespace weft
