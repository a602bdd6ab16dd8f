#include "weft/parallel/nn/plans/sharding_plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <optional>

#include "weft/core/base/shard.h"
#include "weft/core/host/suggest.h"
#include "weft/parallel/nn/plans/mesh_axes.h"

namespace weft {
namespace plans {
#define WEFT_PLAN(name) extern const NamedPlan name;
#include "sharding_plans.inc"
#undef WEFT_PLAN
}  // namespace plans

namespace {

// Returns the axis of this name, or -1 if the mesh has none.
int AxisOrNone(const MeshShape& mesh, std::string_view name) {
  auto it = std::find(mesh.names.begin(), mesh.names.end(), name);
  return it == mesh.names.end() ? -1 : int(it - mesh.names.begin());
}

void CheckDim(const ShardingPlan::Row& row, const Placement& p, const std::string& module, int rank) {
  if (p.kind != Placement::kShard || (p.dim >= 0 && p.dim < rank)) return;
  std::string wanted = p.dim < 0 ? "counted from 0" : fmt::format("below {}, as many as that tensor has", rank);
  throw PlanError(fmt::format("{}shard({}) of the {} of {}: expected a dim {}", row.source, int(p.dim), row.point,
                              module.empty() ? "the model" : module, wanted));
}

}  // namespace

bool MatchesGlob(const std::string& glob, const std::string& path) {
  return fnmatch(glob.c_str(), path.c_str(), 0) == 0;
}

Sharding ShardingPlan::Target(std::string_view module, std::string_view point, int rank, const MeshShape& mesh) const {
  std::string path(module);
  std::array<std::optional<Placement>, kMaxAxes> given;
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
    if (row->point != point || !MatchesGlob(row->module, path)) continue;
    for (const auto& [name, placement] : row->placements) {
      int axis = AxisOrNone(mesh, name);
      if (axis < 0 || given[size_t(axis)]) continue;
      CheckDim(*row, placement, path, rank);
      given[size_t(axis)] = placement;
    }
  }
  Sharding target(mesh.num_axes());
  for (int a = 0; a < mesh.num_axes(); a++) {
    bool one = mesh.sizes[size_t(a)] == 1;  // then there is nothing to place
    target.Set(a, one ? Keep() : given[size_t(a)].value_or(Keep()));
  }
  return target;
}

Sharding ShardingPlan::ParameterPlacement(std::string_view path, int rank, const MeshShape& mesh) const {
  size_t dot = path.rfind('.');
  std::string_view module = dot == std::string_view::npos ? "" : path.substr(0, dot);
  Sharding placement = Target(module, dot == std::string_view::npos ? path : path.substr(dot + 1), rank, mesh);
  for (int a = 0; a < mesh.num_axes(); a++)
    if (placement[a].kind == Placement::kKeep) placement.Set(a, Replicate());
  return placement;
}

Sharding ShardingPlan::FsdpPlacement(const Sharding& used, const Shape& shape, const MeshShape& mesh) const {
  Sharding stored = used;
  for (int axis = 0; axis < mesh.num_axes() && !shape.empty(); axis++) {
    if (!HasRole(mesh, axis, &MeshAxis::shards_parameters) || used[axis].kind == Placement::kShard) continue;
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

std::span<const NamedPlan* const> NamedPlans() {
  static const NamedPlan* const named[] = {
#define WEFT_PLAN(name) &plans::name,
#include "sharding_plans.inc"
#undef WEFT_PLAN
  };
  return named;
}

const NamedPlan* FindPlan(std::string_view name) {
  for (const NamedPlan* plan : NamedPlans())
    if (name == plan->name) return plan;
  return nullptr;
}

const NamedPlan& PlanNamed(std::string_view name, Loc loc) {
  if (const NamedPlan* plan = FindPlan(name)) return *plan;
  std::vector<std::string> names;
  for (const NamedPlan* plan : NamedPlans()) names.emplace_back(plan->name);
  Fail(fmt::format("PlanNamed at {}: {}", ToString(loc), ExpectedOneOf(names, name)));
}

}  // namespace weft
