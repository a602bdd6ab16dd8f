// Embedding and the gradient of its table, for whole tables and for shards of the vocabulary.
#include "harness.h"
#include "share.h"

namespace weft::test {
namespace {

struct Case {
  Shape ids;
  int64_t V, C, held, offset;
};
const std::vector<Case> kCases{{{}, 5, 3, 5, 0},          {{0}, 5, 3, 5, 0},      {{7}, 5, 1, 5, 0},
                               {{3, 40}, 65, 128, 65, 0}, {{2, 30}, 20, 8, 7, 7}, {{2, 30}, 20, 600, 6, 14},
                               {{9}, 20, 4, 0, 20},       {{1500}, 9, 8, 6, 3},   {{4, 211}, 3, 840, 3, 0}};

// Returns the scale of the tolerance for a sum of terms of size 2 that may be added in any order. In f64 the reference
// rounds too, at most once per term by half a unit of a partial sum; with random signs, partial sums stay below a few
// sqrt(terms). For narrower types `narrow` is enough, because their sums run in a wider type.
double SumScale(DType dtype, int64_t terms, double narrow) {
  return dtype == DType::kF64 ? std::max(narrow, 8 * double(terms) * std::sqrt(double(terms))) : narrow;
}

// Returns the scale of the tolerance for a wide gradient. The GPU sums up to 128 terms of 16 bits at a time in f32. The
// terms have size one, and running sums can be larger than the result.
double WideScale(DType dtype, int64_t count) {
  return SizeOf(dtype) == 2 ? 1 : SumScale(AccumulateType(dtype), count, 1e-2);
}

TEST(Embedding, RowsAndTheirGradient) {
  Rng rng(81);
  size_t round = 0;
  for (DType dtype : Floats())
    for (DType id_type : {DType::kI32, DType::kI64})
      for (const Case& c : kCases)
        for (int threads : {1, 2}) {
          if (Skips(round)) continue;
          SCOPED_TRACE(testing::Message() << Name(dtype) << ToString(c.ids) << " V=" << c.V << " C=" << c.C);
          Box table(dtype, {c.held, c.C}, {2, 1}, {c.offset, 0}, {c.V, c.C}),
              dtable(dtype, {c.held, c.C}, {2, 1}, {c.offset, 0}, {c.V, c.C});
          for (int64_t i = 0; i < table.count(); i++) table.Set(i, double(i % 91) - 45);
          Shape wide = c.ids;
          wide.push_back(c.C);
          Box ids = PaddedBox(rng, id_type, c.ids), y = PaddedBox(rng, dtype, wide), dy = RandomBox(rng, dtype, wide);
          for (int64_t i = 0; i < ids.count(); i++) ids.Set(i, double(Pick(rng, 0, c.V - 1)));
          Box shape_operand = table;
          shape_operand.view.data = nullptr;
          RunKernel(Op::kEmbedding, {}, {&table, &ids}, {&y}, threads);
          RunKernel(Op::kEmbeddingGrad, {}, {&ids, &dy, &shape_operand}, {&dtable}, threads);
          Values want, sum(size_t(c.held * c.C));
          for (int64_t i = 0; i < ids.count(); i++) {
            int64_t row = int64_t(ids.Get(i)) - c.offset;
            bool held = row >= 0 && row < c.held;
            for (int64_t j = 0; j < c.C; j++) {
              want.push_back(held ? table.Get(row * c.C + j) : 0);
              if (held) sum[size_t(row * c.C + j)] += dy.Get(i * c.C + j);
            }
          }
          ExpectClose(y, want, 0);
          ExpectClose(dtable, sum, Tolerance(dtype, 1), SumScale(dtype, ids.count(), 1e-2));
          DType result = AccumulateType(dtype);
          Box wide_table(result, {c.held, c.C}, {2, 1}, {c.offset, 0}, {c.V, c.C});
          RunKernel(Op::kEmbeddingGrad, {{"wide", 1}}, {&ids, &dy, &shape_operand}, {&wide_table}, threads);
          ExpectClose(wide_table, sum, Tolerance(result, 16), WideScale(dtype, ids.count()));
        }
}

// Cases with many and with few positions per row: one id for all positions, ids of a small and of a large table, one id
// for half of the positions, and a table whose row numbers need more bits than two passes of a radix sort cover.
struct Crowd {
  int64_t N, V, C;
  bool half_equal;
};
const std::vector<Crowd> kCrowds{{3000, 1, 33, false},     {3000, 700, 8, true},     {20000, 65, 24, false},
                                 {20000, 50257, 3, false}, {20000, 50257, 16, true}, {70000, 2, 4, false},
                                 {150000, 300000, 1, true}};

TEST(Embedding, GradientOfCrowdedRowsIsOneSumInF64) {
  Rng rng(82);
  for (DType dtype : Floats())
    for (const Crowd& c : kCrowds) {
      SCOPED_TRACE(testing::Message() << Name(dtype) << " N=" << c.N << " V=" << c.V << " C=" << c.C);
      Box ids(PickOf<DType>(rng, {DType::kI32, DType::kI64}), {c.N}), dy = RandomBox(rng, dtype, {c.N, c.C}),
                                                                      dtable(dtype, {c.V, c.C}), shape_operand = dtable;
      shape_operand.view.data = nullptr;
      int64_t common = Pick(rng, 0, c.V - 1);
      for (int64_t i = 0; i < c.N; i++)
        ids.Set(i, double(c.half_equal && Pick(rng, 0, 1) ? common : Pick(rng, 0, c.V - 1)));
      Values want(size_t(c.V * c.C));
      for (int64_t i = 0; i < c.N; i++)
        for (int64_t j = 0; j < c.C; j++) want[size_t(int64_t(ids.Get(i)) * c.C + j)] += dy.Get(i * c.C + j);
      RunKernel(Op::kEmbeddingGrad, {}, {&ids, &dy, &shape_operand}, {&dtable});
      // The sum has no error but one final rounding. Sums may cancel, so the tolerance has a scale.
      ExpectClose(dtable, want, 1.01 * Epsilon(dtype), SumScale(dtype, c.N, 1e-6));
      DType result = AccumulateType(dtype);
      Box wide_table(result, {c.V, c.C});
      RunKernel(Op::kEmbeddingGrad, {{"wide", 1}}, {&ids, &dy, &shape_operand}, {&wide_table});
      ExpectClose(wide_table, want, Tolerance(result, 16), WideScale(dtype, c.N));
      std::vector<unsigned char> first = dtable.storage;
      for (int run = 0; run < 3; run++) {
        RunKernel(Op::kEmbeddingGrad, {}, {&ids, &dy, &shape_operand}, {&dtable});
        ASSERT_TRUE(dtable.storage == first) << "the sum has no fixed order";
      }
    }
}

}  // namespace
}  // namespace weft::test
