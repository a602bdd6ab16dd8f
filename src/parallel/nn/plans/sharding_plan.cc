#include "weft/parallel/nn/plans/sharding_plan.h"

#include <fnmatch.h>

#include <algorithm>

#include "weft/core/base/shard.h"
#include "weft/parallel/nn/plans/mesh_axes.h"

namespace weft {
namespace {
int AxisOrNone(const MeshShape& mesh, std::string_view name) {
  auto it = std::find(mesh.names.begin(), mesh.names.end(), name);
  return it == mesh.names.end() ? -1 : int(it - mesh.names.begin());
}
}  // namespace

Sharding ShardingPlan::Row::Target(const MeshShape& mesh) const {
  Sharding target(mesh.num_axes());
  for (int a = 0; a < mesh.num_axes(); a++) target.Set(a, Keep());
  for (const auto& [axis, placement] : placements)
    if (int a = AxisOrNone(mesh, axis); a >= 0) target.Set(a, placement);
  return target;
}

const ShardingPlan::Row* ShardingPlan::Find(std::string_view module, std::string_view point) const {
  std::string path(module);
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row)
    if (row->point == point && fnmatch(row->module.c_str(), path.c_str(), 0) == 0) return &*row;
  return nullptr;
}

Sharding ShardingPlan::ParameterPlacement(std::string_view path, const MeshShape& mesh) const {
  size_t dot = path.rfind('.');
  std::string_view module = dot == std::string_view::npos ? "" : path.substr(0, dot);
  Sharding placement(mesh.num_axes());
  const Row* row = Find(module, dot == std::string_view::npos ? path : path.substr(dot + 1));
  if (!row) return placement;
  for (const auto& [axis, p] : row->placements)
    if (int a = AxisOrNone(mesh, axis); a >= 0 && mesh.sizes[size_t(a)] > 1) placement.Set(a, p);
  return placement;
}

Sharding ShardingPlan::FsdpPlacement(const Sharding& used, const Shape& shape, const MeshShape& mesh) const {
  Sharding stored = used;
  for (int axis = 0; axis < mesh.num_axes() && !shape.empty(); axis++) {
    if (!HasRole(mesh, axis, &MeshAxis::shards_parameters)) continue;
    int dim = 0;
    for (int d = int(shape.size()) - 1; d >= 0; d--)
      if (ChunkSize(shape[size_t(d)], stored.DimAxes(d), mesh) % mesh.sizes[size_t(axis)] == 0) dim = d;
    stored.Set(axis, Shard(dim));
  }
  return stored;
}

Sharding BatchPlacement(const MeshShape& mesh) {
  Sharding placement(mesh.num_axes());
  for (int axis = 0; axis < mesh.num_axes(); axis++)
    if (HasRole(mesh, axis, &MeshAxis::shards_batch)) placement.Set(axis, Shard(0));
  return placement;
}

Sharding MicroStepTarget(const Sharding& target, const MeshShape& mesh) {
  Sharding kept = target;
  for (int axis = 0; axis < mesh.num_axes(); axis++)
    if (HasRole(mesh, axis, &MeshAxis::reduces_once)) kept.Set(axis, Keep());
  return kept;
}

ShardingPlan MegatronPlan(const MegatronOptions& o, const MeshShape& mesh) {
  int axis = AxisOrNone(mesh, kTensorAxis);
  if (axis < 0 || mesh.sizes[size_t(axis)] == 1) return {};
  const std::string tp = kTensorAxis;
  int64_t k = mesh.sizes[size_t(axis)], group = o.heads / std::max<int64_t>(o.kv_heads, 1);
  bool kv_sharded = (o.heads + k - 1) / k == group * ((o.kv_heads + k - 1) / k);
  // Between blocks the residual stream is whole, or sharded over the sequence (dim 1).
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
  return ShardingPlan(std::move(rows));
}

}  // namespace weft
