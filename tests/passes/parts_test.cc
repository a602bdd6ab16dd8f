// Parts: a packed slice is a view, and a packed concat is written by what makes its operands, only where nothing can
// see the difference.
#include "weft/core/passes/parts.h"

#include <gtest/gtest.h>

#include "weft/core/passes/made_for.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft {
namespace {

// A program on one rank, of f32 tensors.
class PartsTest : public testing::Test {
 protected:
  PartsTest() { RegisterCpuKernels(kernels_); }

  Var Made(Op op, Attrs attrs, std::vector<Var> inputs, Shape shape) {
    graph_.nodes.push_back(MadeFor(Node(), op, std::move(attrs), inputs, {DType::kF32, shape, shape, Sharding(0)}));
    return Var(graph_.nodes.back(), 0);
  }
  Var Input(const char* name) { return Made(Op::kLeaf, {{"name", name}}, {}, {4, 8}); }
  Var Exp(const Var& x) { return Made(Op::kExp, {}, {x}, x.shape()); }
  // The elements [begin, end) of dim 1.
  Var Cut(const Var& x, int64_t begin, int64_t end) {
    return Made(Op::kSlice, {{"dim", 1}, {"start", begin}, {"length", end - begin}, {"packed", begin}}, {x},
                {x.dim(0), end - begin});
  }
  Var Join(const Var& a, const Var& b) {
    return Made(Op::kConcat, {{"dim", 1}, {"packed", 0}}, {a, b}, {a.dim(0), a.dim(1) + b.dim(1)});
  }
  // Joins the rows of both.
  Var Stack(const Var& a, const Var& b) {
    return Made(Op::kConcat, {{"dim", 0}, {"packed", 0}}, {a, b}, {a.dim(0) + b.dim(0), a.dim(1)});
  }
  // A reader that takes no slices.
  Var Sorted(const Var& x) { return Made(Op::kSort, {{"dim", 1}, {"descending", 0}}, {x}, x.shape()); }
  void Return(const Var& x) { graph_.outputs.push_back({"y", x}); }

  bool IsView(const Var& slice) { return FindParts(graph_, kernels_).slices.contains(&slice.node()); }
  bool IsJoined(const Var& concat) { return FindParts(graph_, kernels_).joins.contains(&concat.node()); }
  bool IsOver(const Var& result) { return FindParts(graph_, kernels_).over.contains({&result.node(), 0}); }

  Graph graph_;
  KernelTable kernels_;
};

TEST_F(PartsTest, ASliceIsAViewIfItsReadersTakeSlices) {
  Var all = Exp(Input("x")), first = Cut(all, 0, 4), second = Cut(all, 4, 8);
  Return(Exp(first));
  Sorted(second);
  EXPECT_TRUE(IsView(first));
  EXPECT_FALSE(IsView(second)) << "sort takes no slices";
  Return(first);
  EXPECT_FALSE(IsView(first)) << "an output has storage of its own";
}

TEST_F(PartsTest, RowsAreAViewForAnyKernel) {
  Var all = Exp(Input("x"));
  Var rows = Made(Op::kSlice, {{"dim", 0}, {"start", 0}, {"length", 2}, {"packed", 0}}, {all}, {2, 8});
  Var rest = Made(Op::kSlice, {{"dim", 0}, {"start", 2}, {"length", 2}, {"packed", 2}}, {all}, {2, 8});
  Sorted(rows);
  Return(Made(Op::kMerge, {{"dim", 0}}, {Made(Op::kSplit, {{"dim", 0}, {"inner", 1}}, {rest}, {2, 1, 8})}, {2, 8}));
  EXPECT_TRUE(IsView(rows));
  EXPECT_FALSE(IsView(rest)) << "an alias may have other readers";
  Var joined = Made(Op::kSlice, {{"dim", 0}, {"start", 0}, {"length", 2}, {"packed", 0}}, {all}, {2, 8});
  Var wide = Join(joined, Exp(joined));
  Return(Exp(wide));
  EXPECT_FALSE(IsView(joined) && IsJoined(wide)) << "one value has one place";
  EXPECT_TRUE(IsView(rows));
}

TEST_F(PartsTest, ASliceOfAnEntryOrAnAliasIsCopied) {
  Var x = Input("x"), of_entry = Cut(x, 0, 4), all = Exp(x);
  Var merged = Made(Op::kMerge, {{"dim", 0}}, {Made(Op::kSplit, {{"dim", 0}, {"inner", 2}}, {all}, {2, 2, 8})}, {4, 8});
  Var of_alias = Cut(merged, 0, 4);
  Return(Exp(of_entry));
  Return(Exp(of_alias));
  EXPECT_FALSE(IsView(of_entry));
  EXPECT_FALSE(IsView(of_alias));
}

TEST_F(PartsTest, AConcatIsWrittenInPlaceIfItsOperandsAreItsOwn) {
  Var x = Input("x"), a = Exp(x), b = Exp(a), c = Exp(b), own = Join(b, c), twice = Join(a, a), of_entry = Join(x, a);
  for (const Var& v : {own, twice, of_entry}) Return(Exp(v));
  EXPECT_TRUE(IsJoined(own));
  EXPECT_FALSE(IsJoined(twice)) << "one value has one place";
  EXPECT_FALSE(IsJoined(of_entry)) << "an entry has a place";
  Var other = Join(c, Exp(c));
  Return(Exp(other));
  EXPECT_FALSE(IsJoined(own)) << "c is a part of another value too";
}

TEST_F(PartsTest, AConcatIsCopiedIfItOrAnOperandHasAName) {
  Var a = Exp(Input("x")), b = Exp(a), c = Exp(b), d = Exp(c), named = Join(a, b), of_named = Join(c, d);
  Return(named);
  Return(Exp(of_named));
  EXPECT_TRUE(IsJoined(of_named));
  Return(d);
  EXPECT_FALSE(IsJoined(named));
  EXPECT_FALSE(IsJoined(of_named));
}

// Rows that follow each other are no different from a tensor of their own, so that any kernel writes and reads them.
TEST_F(PartsTest, RowsAreJoinedWhateverKernelsMakeAndReadThem) {
  Var x = Input("x"), a = Sorted(Exp(x)), b = Sorted(a), c = Sorted(b);
  Var rows = Stack(a, b), columns = Join(Sorted(c), Sorted(Sorted(c))), of_entry = Stack(x, c);
  for (const Var& v : {rows, columns, of_entry}) Return(Exp(v));
  EXPECT_TRUE(IsJoined(rows));
  EXPECT_FALSE(IsJoined(columns)) << "sort writes no slices";
  EXPECT_FALSE(IsJoined(of_entry)) << "an entry has a place";
  Var left = Exp(c), right = Exp(left), inner = Join(left, right), outer = Stack(Exp(inner), inner);
  Return(Exp(outer));
  EXPECT_TRUE(IsJoined(inner));
  EXPECT_TRUE(IsJoined(outer)) << "a part can have parts";
  Return(Exp(Stack(b, Sorted(b))));
  EXPECT_FALSE(IsJoined(rows)) << "b is a part of another value too";
}

TEST_F(PartsTest, AResultIsWrittenOverASliceThatOnlyItReads) {
  Var all = Exp(Input("x")), first = Cut(all, 0, 4), second = Cut(all, 4, 8);
  Var over = Exp(first), read_again = Exp(second);
  for (const Var& v : {over, read_again}) Return(Exp(v));
  EXPECT_TRUE(IsOver(over));
  EXPECT_TRUE(IsOver(read_again));
  Return(Exp(Cut(all, 6, 8)));
  EXPECT_TRUE(IsOver(over));
  EXPECT_FALSE(IsOver(read_again)) << "another slice has some of its elements";
  Return(Exp(all));
  EXPECT_FALSE(IsOver(over)) << "the whole is read too";
}

}  // namespace
}  // namespace weft
