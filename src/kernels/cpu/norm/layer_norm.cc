// The rows of LayerNorm and its gradient.
#include <cmath>

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/norm/row_norm.h"

namespace weft::cpu {
namespace {

struct LayerNorm {
  static constexpr size_t kParts = 2;  // weight and bias, mean and rstd, dweight and dbias

  template <class C>
  static std::array<C, 2> Forward(const C* x, const std::array<C*, 2>& parameters, int64_t columns, double eps, C* y) {
    const C *weight = parameters[0], *bias = parameters[1];
    double center = SumOf(columns, [&](int64_t i) { return x[i]; }) / double(columns);
    C shift = C(center);
    auto square = [&](int64_t i) { return (double(x[i]) - center) * (double(x[i]) - center); };
    double variance = SumOf(columns, square) / double(columns);
    C scale = C(1 / std::sqrt(variance + eps));
#pragma GCC ivdep
    for (int64_t i = 0; i < columns; i++) y[i] = (x[i] - shift) * scale * weight[i] + bias[i];
    return {shift, scale};
  }

  // With h = (x - mean) * rstd: dx = rstd * (w dy - mean(w dy) - h * mean(w dy h)), dweight = sum of dy h, dbias = sum
  // of dy.
  template <class C>
  static void Backward(const C* x, const C* weight, const C* dy, const std::array<C, 2>& statistics, int64_t columns,
                       C* dx, double* sums) {
    auto [mean, rstd] = statistics;
    double *dweight = sums, *dbias = sums + columns;
    double dot = SumOf(columns, [&](int64_t i) { return double((x[i] - mean) * rstd) * double(weight[i] * dy[i]); });
    double sum = SumOf(columns, [&](int64_t i) { return weight[i] * dy[i]; });
    C along = C(dot / double(columns)), offset = C(sum / double(columns));
    for (int64_t i = 0; i < columns; i++) dweight[i] += double(dy[i] * ((x[i] - mean) * rstd));
    for (int64_t i = 0; i < columns; i++) dbias[i] += double(dy[i]);
#pragma GCC ivdep
    for (int64_t i = 0; i < columns; i++) dx[i] = rstd * (weight[i] * dy[i] - offset - (x[i] - mean) * rstd * along);
  }
};

}  // namespace

void AddLayerNorm(KernelTable& table) { AddNorm<LayerNorm>(table, Op::kLayerNorm, Op::kLayerNormGrad); }

}  // namespace weft::cpu
