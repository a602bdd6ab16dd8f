// The axes that a mesh may have, and their roles. A new axis is one row of this table.
//
// The order of the table is the order of the axes in a mesh, whatever order a config has. The last axis varies fastest,
// so the ranks along it are neighbors.
#pragma once
#include <iterator>
#include <span>
#include <string_view>

#include "weft/core/base/mesh_shape.h"

namespace weft {

struct MeshAxis {
  const char* key;                 // of the config; the part after the dot is the name of the axis
  const char* help;                // for the user, in the table of keys
  bool shards_batch = false;       // shards the rows of a batch; an earlier axis is the major one
  bool shards_parameters = false;  // with fsdp, shards parameters, their gradients and their moments
  bool reduces_once = false;       // gradients are summed over it once per step, not in each micro-step
  bool in_every_mesh = false;      // other axes are left out of the mesh if they have one rank

  constexpr std::string_view name() const { return std::string_view(key).substr(std::string_view("mesh.").size()); }
};

// clang-format off
inline constexpr MeshAxis kMeshAxes[] = {
    {.key = "mesh.replicate", .help = "copies of what dp ranks shard (HSDP): gradients are summed over them once a step; -1: fill",
     .shards_batch = true, .reduces_once = true},
    {.key = "mesh.dp", .help = "data parallel ranks; -1: fill",
     .shards_batch = true, .shards_parameters = true, .in_every_mesh = true},
    {.key = "mesh.tp", .help = "tensor parallel ranks; -1: fill", .in_every_mesh = true},
};
// clang-format on
inline constexpr size_t kNumMeshAxes = std::size(kMeshAxes);
static_assert(kNumMeshAxes <= size_t(kMaxAxes));

// Whether the axis has this role in the mesh: its row has the role, and it has more than one rank.
bool HasRole(const MeshShape& mesh, int axis, bool MeshAxis::*role);
// Whether any axis of the mesh has this role.
bool HasRole(const MeshShape& mesh, bool MeshAxis::*role);
// Returns the number of ranks along all axes with this role together.
int RanksWith(const MeshShape& mesh, bool MeshAxis::*role);

}  // namespace weft
