#include <algorithm>

#include "weft/core/host/rounding.h"
#include "weft/parallel/nn/plans/sharding_plan.h"

namespace weft {

ShardingPlan MegatronPlan(const PlanOptions& o, const MeshShape& mesh) {
  auto axis = std::find(mesh.names.begin(), mesh.names.end(), kTensorAxis);
  if (axis == mesh.names.end()) return {};
  int64_t k = mesh.sizes[size_t(axis - mesh.names.begin())];
  if (k == 1) return {};
  const std::string tp = kTensorAxis;
  int64_t group = o.heads / std::max<int64_t>(o.kv_heads, 1);
  bool kv_sharded = CeilDiv(o.heads, k) == group * CeilDiv(o.kv_heads, k);
  // Between blocks the residual stream is replicated, or sharded over the sequence (dim 1).
  Placement residual = o.sequence_parallel ? Shard(1) : Replicate();
  std::vector<ShardingPlan::Row> rows{
      {"embed", "weight", {{tp, Shard(0)}}},       {"embed", "output", {{tp, residual}}},
      {"*.attn.q", "weight", {{tp, Shard(1)}}},    {"*.attn.q", "bias", {{tp, Shard(0)}}},
      {"*.attn.proj", "weight", {{tp, Shard(0)}}}, {"*.attn.proj", "product", {{tp, residual}}},
      {"*.mlp.up", "weight", {{tp, Shard(1)}}},    {"*.mlp.up", "bias", {{tp, Shard(0)}}},
      {"*.mlp.gate", "weight", {{tp, Shard(1)}}},  {"*.mlp.down", "weight", {{tp, Shard(0)}}},
      {"*.mlp.down", "product", {{tp, residual}}}, {"head", "weight", {{tp, Shard(0)}}},
      {"head", "bias", {{tp, Shard(0)}}},
  };
  if (kv_sharded)
    for (const char* part : {"*.attn.k", "*.attn.v"}) {
      rows.push_back({part, "weight", {{tp, Shard(1)}}});
      rows.push_back({part, "bias", {{tp, Shard(0)}}});
    }
  if (o.sequence_parallel)
    for (const char* gathered : {"*.attn", "*.mlp", "head"}) rows.push_back({gathered, "input", {{tp, Replicate()}}});
  return ShardingPlan(std::move(rows)).Optional();
}

namespace plans {
extern const NamedPlan megatron;
const NamedPlan megatron{"megatron", "tensor parallel attention, MLP, embedding and head", MegatronPlan};
}  // namespace plans

}  // namespace weft
