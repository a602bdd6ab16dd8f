#include "dist/collective_values.h"

#include <algorithm>

namespace weft::test {
namespace {

double Value(int r, int64_t i, DType dtype, int salt) {
  int64_t v = (r * 7 + i * 5 + (i / 3) * r + salt * 11) % 17;
  return dtype == DType::kBool ? double(v % 2) : double(v);
}

}  // namespace

std::vector<double> InputValues(int r, int64_t first, int64_t n, DType dtype, int salt) {
  std::vector<double> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i++) values[size_t(i)] = Value(r, first + i, dtype, salt);
  return values;
}

std::vector<double> Reductions(int ranks, int64_t first, int64_t n, DType dtype, ReduceOp op, int salt) {
  std::vector<double> values = InputValues(0, first, n, dtype, salt);
  for (int64_t i = 0; i < n; i++) {
    double& all = values[size_t(i)];
    for (int r = 1; r < ranks; r++) {
      double v = Value(r, first + i, dtype, salt);
      all = op == ReduceOp::kSum ? all + v : op == ReduceOp::kMax ? std::max(all, v) : std::min(all, v);
    }
    if (dtype == DType::kBool) all = std::min(all, 1.0);
  }
  return values;
}

int64_t FirstDifference(const std::vector<double>& got, const std::vector<double>& want) {
  for (size_t i = 0; i < want.size(); i++)
    if (got[i] != want[i]) return int64_t(i);
  return -1;
}

}  // namespace weft::test
