// Rates: measured work takes what was measured; other work lies between, and what is missing is named.
#include "weft/core/predict/rates.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

BatchWork Product(double flops, double bytes, DType dtype = DType::kF32) {
  return {.kind = WorkClass::kProduct,
          .op = Op::kEinsum,
          .dtype = dtype,
          .name = fmt::format("product {} {} {}", flops, bytes, Name(dtype)),
          .flops = flops,
          .bytes = bytes};
}
BatchWork Memory(Op op, double bytes) {
  return {.op = op, .name = fmt::format("{} {}", Name(op), bytes), .bytes = bytes};
}
BatchWork Moved(std::vector<BatchWork::Transfer> transfers, int64_t ranks) {
  return {.kind = WorkClass::kCollective, .name = "moved", .ranks = ranks, .transfers = std::move(transfers)};
}

TEST(Rates, KnowsWhatWasMeasured) {
  Rates rates;
  std::vector<std::pair<BatchWork, double>> all;
  for (double flops : {1e6, 1e9})
    for (double bytes : {1e3, 1e7})
      for (DType dtype : {DType::kF32, DType::kBF16}) all.emplace_back(Product(flops, bytes, dtype), flops + bytes);
  for (const auto& [work, ms] : all) rates.Add(work, ms);
  for (const auto& [work, ms] : all) EXPECT_EQ(*rates.MillisecondsOf(work), ms) << work.name;
  rates.Add(all[0].first, 7);  // measured again
  EXPECT_EQ(*rates.MillisecondsOf(all[0].first), 7);
}

// A product runs at the rate of the nearest of its type, so a copy of one that has more FLOPs takes longer in
// proportion.
TEST(Rates, ProductsRunAtTheRateOfTheNearest) {
  Rates rates;
  rates.Add(Product(1e9, 1e6), 1);
  rates.Add(Product(1e12, 1e8), 500);               // twice the rate
  rates.Add(Product(1e9, 1e6, DType::kBF16), 0.1);  // another type is not asked
  for (double times : {0.5, 1.5, 2.0}) {
    EXPECT_DOUBLE_EQ(*rates.MillisecondsOf(Product(1e9 * times, 1.1e6)), times);
    EXPECT_DOUBLE_EQ(*rates.MillisecondsOf(Product(1e12 * times, 1.1e8)), 500 * times);
  }
}

TEST(Rates, InterpolatesOverBytes) {
  Rates rates;
  rates.AddCopy(1e3, 0.002);
  rates.AddCopy(1e6, 0.01);
  rates.AddCopy(1e9, 5);
  double before = 0;
  for (double bytes = 1; bytes < 1e12; bytes *= 1.7) {
    double ms = *rates.MillisecondsOf(Memory(Op::kGelu, bytes));
    EXPECT_GE(ms, before) << bytes;
    before = ms;
    if (bytes <= 1e3) {
      EXPECT_EQ(ms, 0.002);  // the fixed cost
    }
    if (bytes > 1e9) {
      EXPECT_DOUBLE_EQ(ms, 5 * bytes / 1e9);
    }
  }
  EXPECT_NEAR(*rates.MillisecondsOf(Memory(Op::kGelu, 1e6)), 0.01, 1e-14);  // through logarithms
  // An op that was measured to be slower than a copy is as much slower at other sizes. Other ops are not.
  rates.Add(Memory(Op::kGelu, 1e6), 0.03);
  EXPECT_NEAR(*rates.MillisecondsOf(Memory(Op::kGelu, 1e9)), 15, 1e-12);
  EXPECT_NEAR(*rates.MillisecondsOf(Memory(Op::kAdd, 1e9)), 5, 1e-12);
}

TEST(Rates, CollectivesTakeTheirTransfers) {
  Rates rates;
  rates.AddTransfer({Op::kAllGather, 1e6}, 2, 1);
  rates.AddTransfer({Op::kAllToAll, 1e6}, 2, 2);
  rates.AddTransfer({Op::kAllGather, 1e6}, 4, 3);
  EXPECT_EQ(*rates.MillisecondsOf(Moved({{Op::kAllGather, 1e6}}, 2)), 1);
  EXPECT_EQ(*rates.MillisecondsOf(Moved({{Op::kAllGather, 1e6}}, 4)), 3);
  EXPECT_EQ(*rates.MillisecondsOf(Moved({{Op::kAllToAll, 1e6}, {Op::kAllGather, 1e6}}, 2)), 3);
}

TEST(Rates, NamesWhatIsMissing) {
  auto missing = [](const Rates& rates, const BatchWork& work) {
    absl::StatusOr<double> ms = rates.MillisecondsOf(work);
    return ms.ok() ? "" : std::string(ms.status().message());
  };
  Rates rates;
  EXPECT_EQ(missing(rates, Product(1, 1)), "a product of f32");
  EXPECT_EQ(missing(rates, Memory(Op::kAdd, 8)), "copies");
  EXPECT_EQ(missing(rates, Moved({{Op::kAllReduce, 8}}, 4)), "all_reduce among 4 ranks");
  BatchWork attention{.kind = WorkClass::kAttention, .op = Op::kSdpa, .dtype = DType::kBF16, .flops = 1};
  EXPECT_EQ(missing(rates, attention), "sdpa of bf16");
  rates.Add(Product(1, 1), 1);
  EXPECT_EQ(missing(rates, Product(1, 1, DType::kBF16)), "a product of bf16");
  EXPECT_EQ(missing(rates, attention), "sdpa of bf16");  // a product does not stand for attention
}

}  // namespace
}  // namespace weft
