// A function that gets a size which no tensor can have throws Error, or its result is right. Sizes near the ends of 64
// bits overflow where they are added or multiplied unchecked.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "dtensor/dtensor_testing.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/parallel/dtensor/factories.h"
#include "weft/parallel/nn/layers/packing.h"
#include "weft/parallel/program/state.h"

namespace weft {
namespace {

constexpr DType kF64 = DType::kF64, kI64 = DType::kI64;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kTooLarge = int64_t{1} << 57;  // the smallest power of 2 above kMostElements
constexpr int64_t kSizes[] = {kMost, kMost - 2, kLeast, kLeast + 1, -1, int64_t{1} << 62, int64_t{1} << 61, kTooLarge};

// The error of a call or the values that it returned.
struct Outcome {
  std::string error, values;
};
std::ostream& operator<<(std::ostream& out, const Outcome& o) { return out << "'" << o.error << "' " << o.values; }

// Other exceptions than Error leave this function, and fail the test.
Outcome OutcomeOf(const std::function<Tensor()>& fn) {
  try {
    Tensor value = fn();
    return {"", fmt::format("{} {}", ToString(value.shape()), value.ToDoubles())};  // a text, in which NaN equals NaN
  } catch (const Error& e) {
    return {e.what(), ""};
  }
}

// Runs the body on one rank, and on three ranks that hold unequal parts.
void OnOneAndThree(const test::Body& body) {
  for (int ranks : {1, 3}) test::OnMesh({ranks}, body);
}

// Shapes that no tensor can have, all of which contain the size.
std::vector<Shape> ShapesOf(int64_t n) { return {{n}, {n, 8}, {8, n}, {n, n}, {0, n}, {3, n, 0}}; }
std::vector<Shape> BadShapes() {
  constexpr int64_t kHalf = int64_t{1} << 32;
  std::vector<Shape> shapes{{-3, -2}, {kHalf, kHalf}, {kHalf, kHalf, 0}, {1 << 20, kHalf, 1 << 20}, Shape(9, 1)};
  for (int64_t n : kSizes)
    for (Shape& shape : ShapesOf(n)) shapes.push_back(shape);
  return shapes;
}

using OfShape = std::function<Tensor(const Shape&, DeviceMesh&)>;
const std::vector<std::pair<const char*, OfShape>> kOfShape = {
    {"Full", [](const Shape& s, DeviceMesh&) { return ValueOf(Full(1, kF64, s)); }},
    {"ReduceSum", [](const Shape& s, DeviceMesh&) { return ValueOf(ReduceSum(Full(1, kF64, s), 0)); }},
    {"Iota", [](const Shape& s, DeviceMesh&) { return ValueOf(Iota(0, kI64, s)); }},
    {"RandomUniform", [](const Shape& s, DeviceMesh&) { return ValueOf(RandomUniform(kF64, s)); }},
    {"RandomNormal", [](const Shape& s, DeviceMesh&) { return ValueOf(RandomNormal(DType::kF32, s)); }},
    {"BroadcastTo", [](const Shape& s, DeviceMesh&) { return ValueOf(BroadcastTo(Full(1, kF64, {}), s)); }},
    {"Tensor::Empty", [](const Shape& s, DeviceMesh&) { return Tensor::Empty(kF64, s); }},
    {"Tensor::Zeros", [](const Shape& s, DeviceMesh&) { return Tensor::Zeros(kF64, s); }},
    {"Tensor::FromDoubles",
     [](const Shape& s, DeviceMesh&) {
       return Tensor::FromDoubles({1, 2, 3, 4, 5, 6}, kF64, s);
     }},
    {"Tensor::Reshaped", [](const Shape& s, DeviceMesh&) { return Tensor::Zeros(kF64, {6}).Reshaped(s); }},
    {"Zeros", [](const Shape& s, DeviceMesh& mesh) { return Zeros(s, mesh, {Shard(0)}).ToLocal(); }},
    {"Ones", [](const Shape& s, DeviceMesh& mesh) { return Ones(s, mesh, {Replicate()}).ToLocal(); }},
    {"Full in placements", [](const Shape& s, DeviceMesh& mesh) { return Full(s, 2, mesh, {Partial()}).ToLocal(); }},
    {"Empty", [](const Shape& s, DeviceMesh& mesh) { return Empty(s, mesh, {Shard(0)}).ToLocal(); }},
    {"Rand", [](const Shape& s, DeviceMesh& mesh) { return Rand(s, mesh, {Shard(0)}).ToLocal(); }},
    {"Uniform", [](const Shape& s, DeviceMesh& mesh) { return Uniform(s, 0, 1, mesh, {Shard(0)}).ToLocal(); }},
    {"Randn", [](const Shape& s, DeviceMesh& mesh) { return Randn(s, mesh, {Shard(0)}).ToLocal(); }},
    {"FromLocal",
     [](const Shape& s, DeviceMesh& mesh) {
       return DTensor::FromLocal(Tensor::Zeros(kF64, {2}), mesh, {Shard(0)}, s).ToLocal();
     }},
    {"State::Add",
     [](const Shape& s, DeviceMesh& mesh) {
       State state(mesh);
       return state.Add("w", kF64, s, Sharding(1), true).local;
     }},
    {"State::AddTogether",
     [](const Shape& s, DeviceMesh& mesh) {
       State state(mesh);
       state.AddTogether(std::vector<State::NewEntry>{{"w", kF64, s, Sharding(1)}});
       return state.At("w").local;
     }},
};

TEST(Sizes, OfShapesAreRefused) {
  OnOneAndThree([](test::Rank rank) {
    for (const auto& [name, call] : kOfShape)
      for (const Shape& shape : BadShapes()) {
        Outcome got = OutcomeOf([&] { return call(shape, rank.mesh); });
        ASSERT_FALSE(got.error.empty()) << name << " " << ToString(shape) << " gave " << got;
        ASSERT_NE(got.error.find("expected "), got.error.npos) << name << " " << got;
      }
  });
}

// x: 1 to 6. ids: 0 to 5. square: [2, 3]. heads: [1, 3, 2, 2].
struct Operands {
  Var x, ids, square, heads;
};
Operands MakeOperands(DeviceMesh& mesh) {
  auto share = [&](const Shape& shape) {
    return DistributeTensor(Tensor::FromDoubles({1, 2, 3, 4, 5, 6}, kF64, shape), mesh, {Shard(0)},
                            {.requires_grad = true});
  };
  Var ids = Iota(0, kI64, {6}), twelve = Cast(Iota(0, kI64, {12}), kF64);
  return {share({6}), ids, share({2, 3}), Split(Split(Broadcast(Scale(twelve, 0.1), 0, 1), 1, 4), 2, 2)};
}
Var Attend(const Operands& o, const SdpaOptions& options) { return Sdpa(o.heads, o.heads, o.heads, options); }
Var GradOf(const Var& y, const Var& x) { return Grad(SumAll(y), std::vector{x})[0]; }

using OfSize = std::function<Var(const Operands&, int64_t)>;
const std::vector<std::pair<const char*, OfSize>> kRefused = {
    {"Broadcast", [](const Operands& o, int64_t n) { return Broadcast(o.x, 0, n); }},
    {"Broadcast, last", [](const Operands& o, int64_t n) { return Broadcast(o.x, 1, n); }},
    {"BroadcastTo",
     [](const Operands& o, int64_t n) {
       return ReduceSum(BroadcastTo(o.x, {n, 8, 6}), 0);
     }},
    {"OneHot", [](const Operands& o, int64_t n) { return OneHot(o.ids, n); }},
    {"Slice to", [](const Operands& o, int64_t n) { return Slice(o.x, 0, 2, n); }},
    {"Slice from", [](const Operands& o, int64_t n) { return Slice(o.x, 0, n, 2); }},
    {"Slice from, empty", [](const Operands& o, int64_t n) { return Slice(o.x, 0, n, 0); }},
    {"StridedSlice by", [](const Operands& o, int64_t n) { return StridedSlice(o.x, 0, 0, 5, n); }},
    {"StridedSlice by, two", [](const Operands& o, int64_t n) { return StridedSlice(o.x, 0, 1, 2, n); }},
    {"StridedSlice to", [](const Operands& o, int64_t n) { return StridedSlice(o.x, 0, 0, n, 2); }},
    {"StridedSlice all", [](const Operands& o, int64_t n) { return StridedSlice(o.x, 0, n, n, n); }},
    {"StridedSlice past", [](const Operands& o, int64_t n) { return StridedSlice(o.x, 0, 6, 1, n); }},
    {"DynamicSlice", [](const Operands& o, int64_t n) { return DynamicSlice(o.x, Full(0, kI64, {}), 0, n); }},
    {"Pad before", [](const Operands& o, int64_t n) { return Pad(o.x, 0, n, 1); }},
    {"Pad after", [](const Operands& o, int64_t n) { return Pad(o.x, 0, 1, n); }},
    {"Pad", [](const Operands& o, int64_t n) { return Pad(o.x, 0, n, n); }},
    {"Split", [](const Operands& o, int64_t n) { return Split(o.x, 0, n); }},
    {"Split of none", [](const Operands& o, int64_t n) { return Split(Slice(o.x, 0, 0, 0), 0, n); }},
    {"Permute", [](const Operands& o, int64_t n) { return Permute(o.x, {n}); }},
    {"TopK", [](const Operands& o, int64_t n) { return TopK(o.x, n, 0).values; }},
    {"Chunk of none", [](const Operands& o, int64_t n) { return Chunk(Slice(o.x, 0, 0, 0), n)[0]; }},
    {"Rope", [](const Operands& o, int64_t n) { return Rope(o.heads, {.rotated = n}); }},
    {"Concat", [](const Operands& o, int64_t n) { return Concat(std::vector(3, Broadcast(o.x, 0, n / 3)), 0); }},
};

TEST(Sizes, OfResultsAreRefused) {
  OnOneAndThree([](test::Rank rank) {
    Operands operands = MakeOperands(rank.mesh);
    for (const auto& [name, call] : kRefused)
      for (int64_t n : kSizes) {
        Outcome got = OutcomeOf([&] { return ValueOf(call(operands, n)); });
        bool none = std::string(name) == "Concat" && n / 3 == 0;
        ASSERT_EQ(got.error.empty(), none) << name << " " << n << " gave " << got;
      }
  });
}

// Each of them means the same at any distance outside of the tensors, here at 9. The least step and number are 1.
const std::vector<std::pair<const char*, OfSize>> kDistances = {
    {"Tril", [](const Operands& o, int64_t n) { return Tril(o.square, n); }},
    {"Triu", [](const Operands& o, int64_t n) { return Triu(o.square, n); }},
    {"StridedSlice of one", [](const Operands& o, int64_t n) { return StridedSlice(o.x, 0, 5, 1, n); }},
    {"StridedSlice of none", [](const Operands& o, int64_t n) { return StridedSlice(o.x, 0, 6, 0, n); }},
    {"its gradient", [](const Operands& o, int64_t n) { return GradOf(StridedSlice(o.x, 0, 2, 1, n), o.x); }},
    {"Chunk", [](const Operands& o, int64_t n) { return Chunk(o.x, n).back(); }},
    {"Sdpa left", [](const Operands& o, int64_t n) { return Attend(o, {.left = n}); }},
    {"Sdpa right", [](const Operands& o, int64_t n) { return Attend(o, {.causal = false, .right = n}); }},
    {"Sdpa both", [](const Operands& o, int64_t n) { return Attend(o, {.causal = false, .left = n, .right = n}); }},
    {"Sdpa offset", [](const Operands& o, int64_t n) { return Attend(o, {.causal_offset = n}); }},
    {"Sdpa offset and left", [](const Operands& o, int64_t n) { return Attend(o, {.causal_offset = n, .left = 1}); }},
};

TEST(Sizes, ThatAreDistancesMeanAnyOutside) {
  OnOneAndThree([](test::Rank rank) {
    Operands operands = MakeOperands(rank.mesh);
    for (const auto& [name, call] : kDistances)
      for (int64_t n : kSizes) {
        Outcome got = OutcomeOf([&] { return ValueOf(call(operands, n)); });
        Outcome want = OutcomeOf([&] { return ValueOf(call(operands, std::clamp<int64_t>(n, -9, 9))); });
        ASSERT_EQ(got.values, want.values) << name << " " << n << " gave " << got << " and not " << want;
        ASSERT_TRUE(n < 0 || got.error.empty()) << name << " " << n << " gave " << got;
      }
  });
}

TEST(Sizes, OfPackedBatchesAreRefused) {
  std::vector<int64_t> lengths{2, 3};
  for (int64_t n : kSizes)
    for (const nn::PackingOptions& options : {nn::PackingOptions{.slots = n}, nn::PackingOptions{.groups = n}})
      EXPECT_NE(OutcomeOf([&] { return nn::PackedPlaces(lengths, 4, options); }).error, "") << n;
}

TEST(Sizes, OfVarianceAndArange) {
  OnOneAndThree([](test::Rank rank) {
    Operands operands = MakeOperands(rank.mesh);
    for (int64_t n : kSizes) {
      double variance = ValueOf(Variance(operands.x, 0, n)).Item();
      EXPECT_DOUBLE_EQ(variance, 17.5 / std::max(0.0, 6 - double(n))) << n;
      EXPECT_NE(OutcomeOf([&] { return Arange(n, rank.mesh, {Shard(0)}).ToLocal(); }).error, "") << n;
    }
  });
}

}  // namespace
}  // namespace weft
