#include "loops.h"

#include <cmath>

namespace weft::test {

double Dot(const double* x, const double* y, int64_t n) {
  double sum = 0;
  for (int64_t d = 0; d < n; d++) sum += x[d] * y[d];
  return sum;
}

void AddScaled(double* y, double factor, const double* x, int64_t n) {
  for (int64_t d = 0; d < n; d++) y[d] += factor * x[d];
}

void AddMagnitudes(double* y, double factor, const double* x, int64_t n) {
  for (int64_t d = 0; d < n; d++) y[d] += factor * std::abs(x[d]);
}

void AddProducts(std::span<const ProductLabel> labels, const double* x, const double* y, double* sum,
                 double* magnitude) {
  if (labels.empty()) {
    double term = *x * *y;
    *sum += term;
    *magnitude += std::abs(term);
    return;
  }
  const ProductLabel& label = labels[0];
  for (int64_t i = 0; i < label.extent; i++)
    AddProducts(labels.subspan(1), x + i * label.x, y + i * label.y, sum + i * label.out, magnitude + i * label.out);
}

}  // namespace weft::test
