// EinsumLabels groups labels as the equation requires, and its nests walk the tensors by their strides.
#include "weft/kernels/common/einsum_labels.h"

#include <fmt/format.h>

#include "harness.h"

namespace weft::test {
namespace {

struct Case {
  const char* eq;
  Shape a, b, out;
  bool swapped;
  int64_t batch, m, n, k;
  int batch_loops, row_loops, column_loops, term_loops;
};

// B=2 T=5 C=8 H=3 D=4
const std::vector<Case> kCases{
    {"btc,chd->bthd", {2, 5, 8}, {8, 3, 4}, {2, 5, 3, 4}, false, 1, 10, 12, 8, 0, 1, 1, 1},
    {"btc,chd->bhtd", {2, 5, 8}, {8, 3, 4}, {2, 3, 5, 4}, false, 1, 10, 12, 8, 0, 2, 2, 1},
    {"bthd,hdc->btc", {2, 5, 3, 4}, {3, 4, 8}, {2, 5, 8}, false, 1, 10, 8, 12, 0, 1, 1, 1},
    {"bthd,dhc->btc", {2, 5, 3, 4}, {4, 3, 8}, {2, 5, 8}, false, 1, 10, 8, 12, 0, 1, 1, 2},
    {"bthd,btc->chd", {2, 5, 3, 4}, {2, 5, 8}, {8, 3, 4}, true, 1, 8, 12, 10, 0, 1, 1, 1},
    {"bthd,bshd->bhts", {2, 5, 3, 4}, {2, 7, 3, 4}, {2, 3, 5, 7}, false, 6, 5, 7, 4, 2, 1, 1, 1},
    {"bij,bjk->bik", {2, 5, 8}, {2, 8, 3}, {2, 5, 3}, false, 2, 5, 3, 8, 1, 1, 1, 1},
    {"ij,ij->ij", {5, 8}, {5, 8}, {5, 8}, false, 40, 1, 1, 1, 1, 0, 0, 0},
    {"ij,j->i", {5, 8}, {8}, {5}, true, 1, 1, 5, 8, 0, 0, 1, 1},
    {"i,j->ij", {5}, {8}, {5, 8}, false, 1, 5, 8, 1, 0, 1, 1, 0},
    {"i,i->", {5}, {5}, {}, false, 1, 1, 1, 5, 0, 0, 0, 1},
    {"mk,kn->mn", {5, 0}, {0, 8}, {5, 8}, false, 1, 5, 8, 0, 0, 1, 1, 1},
};

TEST(EinsumLabels, Groups) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.eq);
    Box a(DType::kF32, c.a), b(DType::kF32, c.b), out(DType::kF32, c.out);
    Attrs attrs{{"eq", c.eq}};
    std::vector<TensorView> in{a.view, b.view}, outs{out.view};
    EinsumLabels labels({&attrs, in, outs, nullptr, 0, nullptr, nullptr});
    EXPECT_EQ(labels.swapped, c.swapped);
    EXPECT_EQ(Shape({labels.batch, labels.m, labels.n, labels.k}), Shape({c.batch, c.m, c.n, c.k}));
    EXPECT_EQ(Shape({labels.batches.rank, labels.rows.rank, labels.columns.rank, labels.terms.rank}),
              Shape({c.batch_loops, c.row_loops, c.column_loops, c.term_loops}));
  }
}

TEST(EinsumLabels, PaddedDimsDoNotJoin) {
  Box a(DType::kF32, {2, 5, 8}, {0, 1, 0}), b(DType::kF32, {8, 3}), out(DType::kF32, {2, 5, 3}, {0, 1, 0});
  Attrs attrs{{"eq", "btc,cf->btf"}};
  std::vector<TensorView> in{a.view, b.view}, outs{out.view};
  EinsumLabels labels({&attrs, in, outs, nullptr, 0, nullptr, nullptr});
  ASSERT_EQ(labels.rows.rank, 2);
  EXPECT_EQ(labels.rows.strides[0][0], 18);  // in out: 6 rows of 3
  EXPECT_EQ(labels.rows.strides[0][1], 48);  // in a: 6 rows of 8
  EXPECT_EQ(labels.rows.Only(1).rank, 2);
}

TEST(EinsumLabels, OneOperandOfANestJoinsMore) {
  Nest nest(2);
  nest.Add(3, {8, 100});
  nest.Add(2, {4, 10});
  nest.Add(4, {1, 1});
  nest.Collapse();
  EXPECT_EQ(nest.rank, 3);
  EXPECT_EQ(nest.Only(0).rank, 1);
  EXPECT_EQ(nest.Only(0).inner_extent(), 24);
  EXPECT_EQ(nest.Only(1).rank, 3);
  for (int64_t i = 0; i < nest.Count(); i++)
    for (int o = 0; o < 2; o++) EXPECT_EQ(nest.Only(o).At(i)[0], nest.At(i)[size_t(o)]);
}

}  // namespace
}  // namespace weft::test
