// The rows of RmsNorm and its gradient.
#include <cmath>

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/norm/row_norm.h"

namespace weft::cpu {
namespace {

struct RmsNorm {
  static constexpr size_t kParts = 1;  // the weight, rstd, dweight

  template <class C>
  static std::array<C, 1> Forward(const C* x, const std::array<C*, 1>& parameters, int64_t columns, double eps, C* y) {
    const C* weight = parameters[0];
    double square = SumOf(columns, [&](int64_t i) { return double(x[i]) * double(x[i]); });
    C scale = C(1 / std::sqrt(square / double(columns) + eps));
#pragma GCC ivdep
    for (int64_t i = 0; i < columns; i++) y[i] = x[i] * scale * weight[i];
    return {scale};
  }

  // With h = x * rstd: dx = rstd * (w dy - h * mean(w dy h)), dweight = sum of dy h.
  template <class C>
  static void Backward(const C* x, const C* weight, const C* dy, const std::array<C, 1>& statistics, int64_t columns,
                       C* dx, double* dweight) {
    C rstd = statistics[0];
    double dot = SumOf(columns, [&](int64_t i) { return double(x[i] * rstd) * double(weight[i] * dy[i]); });
    C mean = C(dot / double(columns));
    for (int64_t i = 0; i < columns; i++) dweight[i] += double(dy[i] * (x[i] * rstd));
#pragma GCC ivdep
    for (int64_t i = 0; i < columns; i++) dx[i] = rstd * (weight[i] * dy[i] - x[i] * rstd * mean);
  }
};

}  // namespace

void AddRmsNorm(KernelTable& table) { AddNorm<RmsNorm>(table, Op::kRmsNorm, Op::kRmsNormGrad); }

}  // namespace weft::cpu
