// ShardingPlan: parallelism as a table. A row has a glob that matches modules, a point of these modules, and a
// placement per mesh axis.
//
//   {"*.attn.proj", "weight", {{"tp", Shard(0)}}},    // a row-parallel product ...
//   {"*.attn.proj", "product", {{"tp", Shard(1)}}},   // ... whose Partial sum is scattered over the sequence
//
// A point is the name of a parameter, "input", "product" (of a Linear, before its bias) or "output". For each axis, the
// last matching row that names the axis applies. An axis that no row names stays as it is; parameters are replicated
// over it.
//
// Each named plan is one file in named/, and CMake collects these files into a table.
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

// Thrown for a row that does not fit the model.
class PlanError : public Error {
 public:
  using Error::Error;
};

class ShardingPlan {
 public:
  struct Row {
    std::string module;  // a glob that matches module paths; * also matches dots
    std::string point;
    std::vector<std::pair<std::string, Placement>> placements;
    std::string source{};   // prefix of errors about a row of a config: "a.yaml:4:12: parallel.plan: "
    bool optional = false;  // whether it may match nothing in a model; Init refuses other rows that do not
  };
  ShardingPlan() = default;
  explicit ShardingPlan(std::vector<Row> rows) : rows_(std::move(rows)) {}

  const std::vector<Row>& rows() const { return rows_; }
  void Append(const std::vector<Row>& rows) { rows_.insert(rows_.end(), rows.begin(), rows.end()); }
  // Returns the plan with all its rows optional, as those for many models are.
  ShardingPlan Optional() && {
    for (Row& row : rows_) row.optional = true;
    return std::move(*this);
  }

  // Returns the placements that the rows give a tensor of `rank` dims at a point of a module: Keep() on axes that no
  // row names, and on axes with one rank. Ignores placements on axes that the mesh lacks. Throws PlanError for a Shard
  // of a dim that the tensor lacks, also on axes with one rank.
  Sharding Target(std::string_view module, std::string_view point, int rank, const MeshShape& mesh) const;
  // Returns the placements of a parameter of `rank` dims in the same way, with Replicate instead of Keep().
  Sharding ParameterPlacement(std::string_view parameter_path, int rank, const MeshShape& mesh) const;
  // Returns `used`, also sharded over the axes with shards_parameters. Each such axis becomes the minor axis of the
  // first dim whose chunk size it divides, or else of dim 0. An axis that already shards the parameter stays as it is.
  Sharding FsdpPlacement(const Sharding& used, const Shape& shape, const MeshShape& mesh) const;

 private:
  std::vector<Row> rows_;
};

// Whether a shell pattern matches the path of a module or parameter. * also matches dots.
bool MatchesGlob(const std::string& glob, const std::string& path);

// Returns the placement of a batch [rows, ...]: its rows are sharded over the axes with shards_batch (mesh_axes.h).
Sharding BatchPlacement(const MeshShape& mesh);
// Returns `target` with Keep() on the axes that gradients cross once per step, not in each micro-step (reduces_once).
Sharding MicroStepTarget(const Sharding& target, const MeshShape& mesh);

// The axis in the rows of MegatronPlan.
inline constexpr const char* kTensorAxis = "tp";

// The inputs of a plan apart from the mesh.
struct PlanOptions {
  int64_t heads = 1, kv_heads = 1;
  bool sequence_parallel = false;
  bool tie_embeddings = false;  // the head's weight is the embedding's table
};
// A plan that a config can name in parallel.plan, and that can be the plan of a family.
struct NamedPlan {
  const char* name;     // also the name of its file
  const char* summary;  // for the user
  ShardingPlan (*make)(const PlanOptions& options, const MeshShape& mesh);
};
std::span<const NamedPlan* const> NamedPlans();
const NamedPlan* FindPlan(std::string_view name);  // null if there is none
// Returns the plan of this name. Throws Error if there is none; the error lists the plans.
const NamedPlan& PlanNamed(std::string_view name, Loc loc = Loc::current());

// Tensor parallelism as in Megatron-LM (Shoeybi et al. 2019; sequence parallelism: Korthikanti et al. 2022). Shards the
// columns of q, k, v, up and gate, the rows of proj and down, and the vocabulary of embedding and head. K and V stay
// replicated if the mesh cannot cut KV heads at the boundaries of query heads. Returns no rows if the tp axis is
// missing or has one rank.
ShardingPlan MegatronPlan(const PlanOptions& options, const MeshShape& mesh);

// MegatronPlan for nn::Transformer and its layers, whose modules have PyTorch's names. With sequence parallelism,
// sources and targets are sharded over the sequence between the layers of an encoder or a decoder.
ShardingPlan TransformerPlan(const PlanOptions& options, const MeshShape& mesh);

}  // namespace weft
