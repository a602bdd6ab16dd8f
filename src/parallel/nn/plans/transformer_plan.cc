// The plan of nn::Transformer and its layers: Megatron's cuts, under PyTorch's names of modules.
#include "weft/parallel/nn/plans/sharding_plan.h"

namespace weft {

ShardingPlan TransformerPlan(const PlanOptions& o, const MeshShape& mesh) {
  const ShardingPlan megatron = MegatronPlan(o, mesh);
  ShardingPlan plan;
  // Megatron's rows of one block hold for these layers under other names.
  const std::pair<const char*, std::vector<const char*>> names[] = {
      {"*.attn", {"*self_attn", "*multihead_attn"}}, {"*.mlp.up", {"*linear1"}}, {"*.mlp.down", {"*linear2"}}};
  for (const ShardingPlan::Row& row : megatron.rows())
    for (const auto& [theirs, ours] : names)
      for (const char* name : ours) {
        if (!row.module.starts_with(theirs)) continue;
        ShardingPlan::Row renamed = row;
        renamed.module.replace(0, std::string_view(theirs).size(), name);
        plan.Append({renamed});
        // Keys and values are made from the memory, which is gathered as the input is.
        if (row.point == "input") plan.Append({{renamed.module, "memory", row.placements}});
      }
  if (!o.sequence_parallel || plan.rows().empty()) return std::move(plan).Optional();
  const std::string tp = kTensorAxis;
  for (const char* stack : {"*encoder", "*decoder"}) plan.Append({{stack, "input", {{tp, Shard(1)}}}});
  plan.Append({{"*linear1", "input", {{tp, Replicate()}}}});
  return std::move(plan).Optional();
}

}  // namespace weft
