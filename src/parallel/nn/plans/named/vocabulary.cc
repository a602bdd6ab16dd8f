// Megatron's plan, with the embedding's vocabulary also sharded over the ranks that shard parameters. A rank looks up
// the tokens of all these ranks in its part of the table, and the results are reduce-scattered. So with tokens [B, T]
// of all ranks and a table [V, C], 2 * B * T * C elements move in a step, and not 2 * V * C for the table and its
// gradient. A table that is also the head's weight is gathered for the head, so it stays as it is.
#include "weft/parallel/nn/plans/mesh_axes.h"
#include "weft/parallel/nn/plans/sharding_plan.h"

namespace weft::plans {
namespace {

ShardingPlan Make(const PlanOptions& o, const MeshShape& mesh) {
  ShardingPlan plan = MegatronPlan(o, mesh);
  for (const MeshAxis& axis : kMeshAxes) {
    if (!axis.shards_parameters || o.tie_embeddings) continue;
    std::string name(axis.name());
    plan.Append({{"embed", "input", {{name, Replicate()}}},
                 {"embed", "weight", {{name, Shard(0)}}},
                 {"embed", "output", {{name, Shard(0)}}}});
  }
  return std::move(plan).Optional();
}

}  // namespace

extern const NamedPlan vocabulary;
const NamedPlan vocabulary{"vocabulary", "megatron, and the embedding's vocabulary over dp unless the head shares it",
                           Make};

}  // namespace weft::plans
