// Rows: for every op and every dim that may be rows, part of the rows of the operands gives that part of the results.
#include "weft/core/passes/chunk/chunk_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/sweep.h"
#include "parallel/testing.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/record.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

// Adds outputs "part..." and "want..." for the rows [start, start + length) of an op's results.
void AddPart(const Outputs& whole, const Rows& rows, int64_t start, int64_t length, test::Traced& traced) {
  const Node& node = whole[0].node();
  std::vector<Var> in;
  for (size_t k = 0; k < node.inputs.size(); k++)
    in.push_back(rows.in[k] < 0 ? node.inputs[k] : Slice(node.inputs[k], rows.in[k], start, length));
  Outputs part = CurrentBuilder().Emit(node.op, node.attrs, in, node.loc);
  for (size_t o = 0; o < part.size(); o++) {
    std::string number = fmt::format("{}", traced.outputs.size());
    traced.outputs.push_back({"part" + number, part[o]});
    traced.outputs.push_back({"want" + number, Slice(whole[o], rows.out[o], start, length)});
  }
}

// The op on a sample, whole and in two parts along every dim of an operand that may be rows.
test::Traced InParts(Op op, const Sample& sample, const std::vector<Tensor>& drawn) {
  std::vector<Var> in;
  for (size_t i = 0; i < drawn.size(); i++)
    in.push_back(Leaf(fmt::format("in{}", i), drawn[i].dtype(), drawn[i].shape()));
  Outputs whole = CurrentBuilder().Emit(op, sample.attrs, in, Loc::current());
  test::Traced traced;
  for (size_t k = 0; k < in.size(); k++)
    for (int d = 0; d < in[k].rank(); d++) {
      std::optional<Rows> rows = RowsOfOperand(whole[0].node(), k, d);
      int64_t extent = in[k].dim(d), half = extent / 2;
      if (!rows || half == 0) continue;
      EXPECT_EQ(rows->in[k], d);
      EXPECT_EQ(RowsOfResult(whole[0].node(), 0, rows->out[0]), rows);
      AddPart(whole, *rows, 0, half, traced);
      AddPart(whole, *rows, half, extent - half, traced);
    }
  return traced;
}

int CheckParts(Op op, const Sample& sample, const std::string& what) {
  std::vector<Tensor> drawn = sweep::SampleValues(sample, 29);
  Graph graph = test::Trace([&] { return InParts(op, sample, drawn); });
  test::Values leaves;
  for (size_t i = 0; i < drawn.size(); i++) leaves[fmt::format("in{}", i)] = drawn[i];
  bool product = op == Op::kEinsum || op == Op::kLinear;  // the last bits of its sums depend on the number of rows
  test::Values got = test::RunOneRank(graph, {{"x"}, {1}}, leaves);
  int parts = 0;
  for (const auto& [name, value] : got) {
    if (!name.starts_with("part")) continue;
    parts++;
    EXPECT_LE(test::LargestDifference(value, got.at("want" + name.substr(4))), product ? 1e-13 : 0)
        << what << " " << name;
  }
  return parts;
}

TEST(Rows, GivePartsOfTheResults) {
  int ops = 0;
  for (int i = 0; i < kNumOps; i++) {
    std::vector<Sample> samples = Record(Op(i)).samples(Op(i));
    int parts = 0;
    for (size_t s = 0; s < samples.size(); s++)
      parts += CheckParts(Op(i), samples[s], fmt::format("{} sample {}", Name(Op(i)), s));
    ops += parts > 0;
  }
  EXPECT_GT(ops, 65);  // elementwise and structural ops, products, reductions and norms
}

// A position decides what these compute.
TEST(Rows, AreNoneOfOpsThatReadPositions) {
  for (Op op : {Op::kDropout, Op::kRandom, Op::kCumSum})
    for (const Sample& sample : Record(op).samples(op))
      test::Trace([&] {
        EXPECT_TRUE(InParts(op, sample, sweep::SampleValues(sample, 29)).outputs.empty()) << Name(op);
        return test::Traced{};
      });
}

// Rotation and attention read the position in a sequence, and dropout of scores that in all dims. So only sequences are
// rows, and with dropout nothing is.
TEST(Rows, OfAttentionAreSequences) {
  int with_rows = 0, with_dropout = 0;
  for (Op op : {Op::kRope, Op::kSdpa, Op::kSdpaGrad})
    for (const Sample& sample : Record(op).samples(op)) {
      std::vector<Tensor> drawn = sweep::SampleValues(sample, 29);
      bool drops = sample.attrs.Has("p");
      test::Trace([&] {
        std::vector<Var> in;
        for (size_t i = 0; i < drawn.size(); i++)
          in.push_back(Leaf(fmt::format("in{}", i), drawn[i].dtype(), drawn[i].shape()));
        Outputs out = CurrentBuilder().Emit(op, sample.attrs, in, Loc::current());
        EXPECT_FALSE(RowsOfOperand(out[0].node(), 0, 1)) << Name(op) << " of tokens";
        std::optional<Rows> rows = RowsOfOperand(out[0].node(), 0, 0);
        EXPECT_FALSE(drops && rows) << Name(op);
        with_rows += rows.has_value(), with_dropout += drops;
        return test::Traced{};
      });
    }
  EXPECT_GT(with_rows, 10);
  EXPECT_GT(with_dropout, 0);
}

}  // namespace
}  // namespace weft
