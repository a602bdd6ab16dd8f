// The values of the laws of collectives, serial references computed from all ranks' inputs. Sanitized builds compile
// these loops with optimization and do not check them (tests/CMakeLists.txt).
//
// Values are small integers, which are exact in all dtypes, so sums must be exactly equal too.
#pragma once
#include <cstdint>
#include <vector>

#include "weft/core/base/dtype.h"
#include "weft/core/base/placement.h"

namespace weft::test {

// Returns elements [first, first + n) of rank r's input in case `salt`.
std::vector<double> InputValues(int r, int64_t first, int64_t n, DType dtype, int salt = 0);
// Returns those elements of the reduction of all ranks' inputs.
std::vector<double> Reductions(int ranks, int64_t first, int64_t n, DType dtype, ReduceOp op, int salt = 0);
// Returns the index of the first difference of vectors of one size, or -1.
int64_t FirstDifference(const std::vector<double>& got, const std::vector<double>& want);

}  // namespace weft::test
