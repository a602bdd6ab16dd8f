// The flags of an op's record agree with the op on its samples.
#include "weft/core/ir/record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "error_of.h"
#include "parallel/sweep.h"
#include "parallel/testing.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/integer_ops.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

using Check = void (*)(const Node& node, const std::string& what);

// Calls `check` with the op's node on each of its samples.
void ForEachSample(Op op, Check check) {
  std::vector<Sample> samples = Record(op).samples(op);
  ASSERT_FALSE(samples.empty()) << Name(op);
  for (size_t s = 0; s < samples.size(); s++)
    test::Trace([&] {
      std::vector<Var> in;
      for (const Tensor& value : sweep::SampleValues(samples[s], 1))
        in.push_back(Leaf(fmt::format("in{}", in.size()), value.dtype(), value.shape()));
      Outputs out = CurrentBuilder().Emit(op, samples[s].attrs, in, Loc::current());
      check(out[0].node(), fmt::format("{}, sample {}", Name(op), s));
      return test::Traced{.outputs = {{"y", out[0]}}};
    });
}

// Else the result would read beyond the operand's memory, or as another type.
TEST(Record, AliasesHaveTheTypeAndElementsOfTheirOperand) {
  int aliases = 0;
  for (const OpRecord& record : Ops()) {
    if (!record.alias) continue;
    aliases++;
    ForEachSample(record.op, [](const Node& node, const std::string& what) {
      ASSERT_EQ(node.outputs.size(), 1u) << what;
      EXPECT_EQ(node.outputs[0].dtype, node.inputs[0].dtype()) << what;
      EXPECT_EQ(NumElements(node.outputs[0].shape), NumElements(node.inputs[0].shape())) << what;
    });
  }
  EXPECT_EQ(aliases, 3) << "stop_gradient, split and merge";
}

// The op that takes a residual has the operands and results of the op without, and one operand more, which has the
// shape and type of output 0.
TEST(Record, OpsThatTakeAResidualHaveOneMoreOperand) {
  int pairs = 0;
  for (const OpRecord& record : Ops()) {
    if (record.with_residual == Op::kCount) continue;
    pairs++;
    ForEachSample(record.op, [](const Node& node, const std::string& what) {
      std::vector<Var> in(node.inputs.begin(), node.inputs.end());
      in.push_back(Leaf("residual", node.outputs[0].dtype, node.outputs[0].shape));
      Outputs out = CurrentBuilder().Emit(Record(node.op).with_residual, node.attrs, in, Loc::current());
      ASSERT_EQ(out.size(), node.outputs.size()) << what;
      for (size_t i = 0; i < out.size(); i++) {
        EXPECT_EQ(out[i].dtype(), node.outputs[i].dtype) << what;
        EXPECT_EQ(out[i].shape(), node.outputs[i].shape) << what;
      }
    });
  }
  EXPECT_EQ(pairs, 2) << "the gradients of layer_norm and rms_norm";
}

// Fuse adds the cast as the last result of an update, so the update's own results must come from its operands only.
TEST(Record, UpdatesThatWriteACastHaveTheParameterAsOperandAndResultZero) {
  int updates = 0;
  for (const OpRecord& record : Ops()) {
    if (!record.writes_cast) continue;
    updates++;
    ForEachSample(record.op, [](const Node& node, const std::string& what) {
      EXPECT_EQ(node.attrs.IntOr("dtype", -1), -1) << what;
      EXPECT_EQ(node.outputs[0].dtype, node.inputs[0].dtype()) << what;
      EXPECT_EQ(node.outputs[0].shape, node.inputs[0].shape()) << what;
    });
  }
  EXPECT_EQ(updates, 3) << "adamw, sgd and lion";
}

// No integer is infinite, so an infinite bound of integers is none.
TEST(Record, ClampOfIntegersTakesInfiniteBounds) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Tensor x = Tensor::FromDoubles({-5, 0, 5}, DType::kI64, {3});
  auto clamp = [&](double low, double high) {
    Graph graph = test::Trace([&] { return test::Traced{{{"y", Clamp(Leaf("x", DType::kI64, {3}), low, high)}}}; });
    return test::RunOneRank(graph, {{"x"}, {1}}, {{"x", x}}).at("y").ToDoubles();
  };
  EXPECT_EQ(clamp(-kInfinity, 3), (std::vector<double>{-5, 0, 3}));
  EXPECT_EQ(clamp(-3, kInfinity), (std::vector<double>{-3, 0, 5}));
  EXPECT_EQ(clamp(-kInfinity, kInfinity), x.ToDoubles());
}

// Kernels compute integers in i64, so a constant that is not one would be cut off.
TEST(Record, OpsWithAConstantRefuseFractionsForIntegers) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr Op kScalarOps[] = {
#define WEFT_OP(Name, ...) Op::k##Name,
      WEFT_SCALAR_OPS(WEFT_OP)
#undef WEFT_OP
  };
  auto error = [](Op op, DType dtype, double k) {
    return test::ErrorOf([&] {
      test::Trace([&] {
        EmitOne(op, {{"k", k}}, {Leaf("x", dtype, {3})}, Loc::current());
        return test::Traced{};
      });
    });
  };
  for (Op op : kScalarOps)
    for (int i = 0; i < kNumDTypes; i++) {
      DType dtype = DType(i);
      bool integers = !IsFloating(dtype);
      SCOPED_TRACE(fmt::format("{} of {}", Name(op), Name(dtype)));
      for (double k : {0.5, -1.5, 1e-9, 0x1p51 + 0.5, std::nan(""), kInfinity, -kInfinity, 0x1p63, -0x1p64}) {
        std::string text = error(op, dtype, k);
        EXPECT_EQ(text.find("cast the operand to a float") != text.npos, integers) << k << " " << text;
        EXPECT_EQ(text.empty(), !integers) << k << " " << text;
      }
      for (double k : {0.0, -0.0, 1.0, -3.0, 0x1p53, 0x1p62, -0x1p63})
        EXPECT_EQ(error(op, dtype, k).empty(), !integers || TakesIntegers(op)) << k;
    }
}

// A tensor that is filled with a number has that number, or is refused.
TEST(Record, FillsOfIntegersRefuseNumbersThatTheDtypeDoesNotHold) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct Range {
    DType dtype;
    double least, most;  // of doubles
  };
  const double kMost = std::nextafter(0x1p63, 0);
  for (Range r : {Range{DType::kI64, -0x1p63, kMost},
                  {DType::kI32, -0x1p31, 0x1p31 - 1},
                  {DType::kU8, 0, 255},
                  {DType::kBool, 0, 1}}) {
    auto full = [&](double value) { return Full(value, r.dtype, {2}); };
    auto fill = [&](double value) {
      return MaskedFill(Leaf("x", r.dtype, {2}), Leaf("mask", DType::kBool, {2}), value);
    };
    auto error = [&](auto make, double value) {
      return test::ErrorOf([&] { test::Trace([&] { return test::Traced{{{"y", make(value)}}}; }); });
    };
    for (double value : {0.5, std::nan(""), kInfinity, -kInfinity, r.least - std::max(1.0, std::abs(r.least) * 0x1p-52),
                         r.most + std::max(1.0, r.most * 0x1p-52)}) {
      SCOPED_TRACE(fmt::format("{} in {}", value, Name(r.dtype)));
      EXPECT_THAT(error(full, value), testing::HasSubstr("full at"));
      EXPECT_THAT(error(fill, value), testing::HasSubstr("masked_fill at"));
    }
    for (double value : {r.least, r.most, 0.0, 1.0}) {
      EXPECT_EQ(error(fill, value), "");
      Graph graph = test::Trace([&] { return test::Traced{{{"y", full(value)}}}; });
      EXPECT_EQ(test::RunOneRank(graph, {{"x"}, {1}}, {}).at("y").ToDoubles(), std::vector<double>(2, value))
          << Name(r.dtype);
    }
  }
}

}  // namespace
}  // namespace weft
