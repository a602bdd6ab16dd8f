// The gradient of SwiGLU in a product's epilogue is that of the product and the gradient of SwiGLU one by one.
#include "harness.h"

namespace weft::test {
namespace {

// Values in rows that lie `gap` elements further apart than they are long, as parts of a joined value do.
Box Rows(Rng& rng, const Shape& shape, int64_t gap, double scale) {
  Shape padding(shape.size(), 0);
  padding.back() = gap;
  Box box(DType::kBF16, shape, padding);
  std::normal_distribution<double> normal(0, scale);
  for (int64_t i = 0; i < box.count(); i++) box.Set(i, normal(rng));
  return box;
}

struct Case {
  int64_t rows, columns, terms, gap;
};

// The sums of a product may be in another order, so dy may round to a neighbour, 2^-8 apart, and da and db round again.
TEST(LinearSwiGluGrad, IsTheProductAndTheGradientOneByOne) {
  if (!Table().Has(Op::kLinearSwiGluGrad)) GTEST_SKIP() << "the device has no such kernel";
  Rng rng(29);
  for (const Case& c : {Case{2048, 256, 256, 0}, {2048, 512, 320, 512}, {4096, 1024, 512, 8},  // the kernel's tiles
                        {2048, 256, 192, 0}, {2048, 264, 256, 0}, {100, 24, 40, 8}}) {         // others
    SCOPED_TRACE(fmt::format("{} x {} x {}, gap {}", c.rows, c.columns, c.terms, c.gap));
    Shape wide{2, c.rows / 2, c.columns};
    Box x = Rows(rng, {2, c.rows / 2, c.terms}, 0, 1), w = Rows(rng, {c.columns, c.terms}, 0, 0.1);
    Box a = Rows(rng, wide, c.gap, 1), b = Rows(rng, wide, c.gap, 1);
    Box da = Rows(rng, wide, c.gap, 1), db = Rows(rng, wide, c.gap, 1);
    RunKernel(Op::kLinearSwiGluGrad, {{"eq", "btc,fc->btf"}}, {&x, &w, &a, &b}, {&da, &db});
    Box dy(DType::kBF16, wide), want_da(DType::kBF16, wide), want_db(DType::kBF16, wide);
    RunKernel(Op::kEinsum, {{"eq", "btc,fc->btf"}}, {&x, &w}, {&dy});
    RunKernel(Op::kSwiGluGrad, {}, {&a, &b, &dy}, {&want_da, &want_db});
    for (auto [got, want] : {std::pair(&da, &want_da), {&db, &want_db}})
      for (int64_t i = 0; i < got->count(); i++)
        ASSERT_LE(std::abs(got->Get(i) - want->Get(i)), 0x1p-6 * std::abs(want->Get(i)) + 1e-3) << i;
  }
}

}  // namespace
}  // namespace weft::test
