// ShardingPlan: parallelism as a table. A row names a module by glob, a point of it, and placements by mesh axis.
//
//   {"*.attn.proj", "weight", {{"tp", Shard(0)}}},    // a row-parallel product ...
//   {"*.attn.proj", "product", {{"tp", Shard(1)}}},   // ... whose sum is scattered over the sequence
//
// Points: a parameter's name, or "input", "product" (of a Linear, before its bias) and "output". On each axis the last
// matching row that names it counts. An axis that no row names is kept as it is (parameters: replicated).
//
// Plans with a name are one file each in named/, which CMake joins into a table.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/core/base/error.h"
#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

// A row that does not fit the model.
class PlanError : public Error {
 public:
  using Error::Error;
};

class ShardingPlan {
 public:
  struct Row {
    std::string module;  // a glob over module paths; * also crosses dots
    std::string point;
    std::vector<std::pair<std::string, Placement>> placements;
    std::string source{};  // begins errors about a row of a config: "a.yaml:4:12: parallel.plan: "
  };
  ShardingPlan() = default;
  explicit ShardingPlan(std::vector<Row> rows) : rows_(std::move(rows)) {}

  const std::vector<Row>& rows() const { return rows_; }
  void Append(const std::vector<Row>& rows) { rows_.insert(rows_.end(), rows.begin(), rows.end()); }

  // The placements that the rows give a tensor of `rank` dims at a point of a module; Keep() on axes that no row names,
  // and on axes that the mesh lacks or that have one rank. Throws PlanError for a Shard of a dim that the tensor lacks.
  Sharding Target(std::string_view module, std::string_view point, int rank, const MeshShape& mesh) const;
  // The same for a parameter of `rank` dims, Replicate instead of Keep().
  Sharding ParameterPlacement(std::string_view parameter_path, int rank, const MeshShape& mesh) const;
  // `used`, also sharded over the axes that shard parameters, as the minor ones: each on the first dim whose chunk it
  // divides, else on dim 0. An axis over which the plan shards the parameter stays as it is.
  Sharding FsdpPlacement(const Sharding& used, const Shape& shape, const MeshShape& mesh) const;

 private:
  std::vector<Row> rows_;
};

// Whether a shell's pattern matches a module's or parameter's path; * also matches dots.
bool MatchesGlob(const std::string& glob, const std::string& path);

// The placement of a batch [rows, ...]: rows over the axes that shard it (see mesh_axes.h).
Sharding BatchPlacement(const MeshShape& mesh);
// `target` on the axes that gradients cross in each micro-step; on those that they cross once a step, Keep().
Sharding MicroStepTarget(const Sharding& target, const MeshShape& mesh);

// The axis that MegatronPlan's rows name.
inline constexpr const char* kTensorAxis = "tp";

// What a plan depends on beside the mesh.
struct PlanOptions {
  int64_t heads = 1, kv_heads = 1;
  bool sequence_parallel = false;
};
// A plan that configs name in parallel.plan, and families as their own.
struct NamedPlan {
  const char* name;     // of the file too
  const char* summary;  // for people
  ShardingPlan (*make)(const PlanOptions& options, const MeshShape& mesh);
};
std::span<const NamedPlan* const> NamedPlans();
const NamedPlan* FindPlan(std::string_view name);  // null where there is none

// Tensor parallel as in Megatron-LM (Shoeybi et al. 2019; sequence parallel: Korthikanti et al. 2022): columns of q, k,
// v, up and gate, rows of proj and down, the vocabulary of embedding and head. K and V stay replicated where the mesh
// cannot cut KV heads at the boundaries of query heads.
ShardingPlan MegatronPlan(const PlanOptions& options, const MeshShape& mesh);

}  // namespace weft
