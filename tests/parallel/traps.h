// Helpers for the tests of traps. Each trap of the placement rules has a test named after it. So has each bug that
// other frameworks shipped: "PT" is the number of an issue of PyTorch, "ML" of Megatron-LM and "HF" of transformers.
#pragma once
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error_of.h"
#include "parallel/testing.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"

namespace weft::traps {

using test::Collectives;
using test::Draw;
using test::ErrorOf;
using test::ExpectSameOnRanks;
using test::RunOneRank;
using test::RunRanks;
using test::Traced;
using test::Values;
using Counts = std::map<std::string, int>;
using testing::AllOf;
using testing::HasSubstr;

inline const MeshShape kDp2Tp2{{"dp", "tp"}, {2, 2}};
inline const MeshShape kTp2{{"tp"}, {2}};
inline const MeshShape kTp4{{"tp"}, {4}};
inline constexpr DType kF64 = DType::kF64;
inline const Placement R = Replicate();
inline const Placement P = Partial();
inline Placement S(int dim, int order = -1) { return Shard(dim, order); }

inline Tensor Ids(const Shape& shape, int64_t below, int64_t seed = 5) {
  std::vector<double> values;
  for (int64_t i = 0; i < NumElements(shape); i++) values.push_back(double((i * 7 + seed) % below));
  return Tensor::FromDoubles(values, DType::kI64, shape);
}

// Returns the placement that the rules give to the first output of the graph.
inline Sharding NaturalPlacement(const Graph& graph, const MeshShape& mesh) {
  LocalProgram local = Partition(graph, {.mesh = mesh, .natural = true});
  const Var& out = local.graph.outputs[0].value;
  return out.node().outputs[size_t(out.index())].sharding;
}

}  // namespace weft::traps
