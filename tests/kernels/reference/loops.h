// The inner loops of references in f64, for tests of kernels. Sanitized builds compile tests without optimization, but
// this file with it (tests/CMakeLists.txt), because nearly all time of a reference is spent in these loops. Sums are in
// the order of the elements.
#pragma once
#include <cstdint>
#include <span>

namespace weft::test {

// Returns the sum of x[d] * y[d] for d < n.
double Dot(const double* x, const double* y, int64_t n);
// Adds factor * x[d] to y[d] for d < n.
void AddScaled(double* y, double factor, const double* x, int64_t n);
// Adds factor * |x[d]| to y[d] for d < n.
void AddMagnitudes(double* y, double factor, const double* x, int64_t n);

// A label of a product: its extent, and its strides in the operands and the result, which are 0 where it is missing.
struct ProductLabel {
  int64_t extent, x, y, out;
};
// For every index of the labels, in row-major order: adds the product of the elements of x and y to that of `sum`, and
// its magnitude to that of `magnitude`.
void AddProducts(std::span<const ProductLabel> labels, const double* x, const double* y, double* sum,
                 double* magnitude);

}  // namespace weft::test
