// ShardingPlan: parallelism as a table. A row names a module by glob, a point of it, and placements by mesh axis.
//
//   {"*.attn.proj", "weight", {{"tp", Shard(0)}}},    // a row-parallel product ...
//   {"*.attn.proj", "product", {{"tp", Shard(1)}}},   // ... whose sum is scattered over the sequence
//
// Points: a parameter's name, or "input", "product" (of a Linear, before its bias) and "output". Axes that a row does
// not name are kept as they are (parameters: replicated). The last matching row counts.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

class ShardingPlan {
 public:
  struct Row {
    std::string module;  // a glob over module paths; * also crosses dots
    std::string point;
    std::vector<std::pair<std::string, Placement>> placements;
    // Keep() for the axes that are not named. Rows may name axes that the mesh does not have: they place nothing.
    Sharding Target(const MeshShape& mesh) const;
  };
  ShardingPlan() = default;
  explicit ShardingPlan(std::vector<Row> rows) : rows_(std::move(rows)) {}

  const Row* Find(std::string_view module, std::string_view point) const;
  const std::vector<Row>& rows() const { return rows_; }

  Sharding ParameterPlacement(std::string_view parameter_path, const MeshShape& mesh) const;
  // `used`, also sharded over the axes that shard parameters, as the minor ones: each on the first dim whose chunk it
  // divides, else on dim 0.
  Sharding FsdpPlacement(const Sharding& used, const Shape& shape, const MeshShape& mesh) const;

 private:
  std::vector<Row> rows_;
};

// The placement of a batch [rows, ...]: rows over the axes that shard it (see mesh_axes.h).
Sharding BatchPlacement(const MeshShape& mesh);
// `target` on the axes that gradients cross in each micro-step; on those that they cross once a step, Keep().
Sharding MicroStepTarget(const Sharding& target, const MeshShape& mesh);

// The axis that MegatronPlan's rows name.
inline constexpr const char* kTensorAxis = "tp";

struct MegatronOptions {
  int64_t heads = 1, kv_heads = 1;
  bool sequence_parallel = false;
};
// Tensor parallel as in Megatron-LM (Shoeybi et al. 2019; sequence parallel: Korthikanti et al. 2022): columns of q, k,
// v, up and gate, rows of proj and down, the vocabulary of embedding and head. K and V stay replicated where the mesh
// cannot cut KV heads at the boundaries of query heads.
ShardingPlan MegatronPlan(const MegatronOptions& options, const MeshShape& mesh);

}  // namespace weft
