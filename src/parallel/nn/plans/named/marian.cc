// The plan of Marian: Megatron's, whose rows hold for the attention to the encoder too.
#include "weft/parallel/nn/plans/sharding_plan.h"

namespace weft::plans {
namespace {

ShardingPlan Make(const PlanOptions& o, const MeshShape& mesh) {
  ShardingPlan plan = MegatronPlan(o, mesh);
  std::vector<ShardingPlan::Row> cross;
  const std::string self = "*.attn";
  for (ShardingPlan::Row row : plan.rows())
    if (row.module.starts_with(self)) {
      row.module.replace(0, self.size(), "*.cross");
      cross.push_back(row);
      // The encoder's output is gathered like the input.
      if (row.point == "input") cross.push_back({row.module, "memory", row.placements});
    }
  plan.Append(cross);
  return std::move(plan).Optional();
}

}  // namespace

extern const NamedPlan marian;
const NamedPlan marian{"marian", "megatron, and attention to the encoder", Make};

}  // namespace weft::plans
