// The plan of BERT: Megatron's, with the dense layer before the head sharded by columns. The last norm gets the dense
// layer's result replicated or, with sequence parallelism, sharded over the sequence.
#include "weft/parallel/nn/plans/sharding_plan.h"

namespace weft::plans {
namespace {

ShardingPlan Make(const PlanOptions& o, const MeshShape& mesh) {
  ShardingPlan plan = MegatronPlan(o, mesh);
  if (plan.rows().empty()) return plan;
  const std::string tp = kTensorAxis;
  Placement residual = o.sequence_parallel ? Shard(1) : Replicate();
  plan.Append({{"dense", "weight", {{tp, Shard(1)}}},
               {"dense", "bias", {{tp, Shard(0)}}},
               {"last_norm", "input", {{tp, residual}}}});
  if (o.sequence_parallel) plan.Append({{"dense", "input", {{tp, Replicate()}}}});
  return std::move(plan).Optional();
}

}  // namespace

extern const NamedPlan bert;
const NamedPlan bert{"bert", "megatron, and the dense layer before the head", Make};

}  // namespace weft::plans
