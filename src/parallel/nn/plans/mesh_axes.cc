#include "weft/parallel/nn/plans/mesh_axes.h"

#include <algorithm>

namespace weft {

bool HasRole(const MeshShape& mesh, int axis, bool MeshAxis::*role) {
  auto row = std::find_if(std::begin(kMeshAxes), std::end(kMeshAxes),
                          [&](const MeshAxis& a) { return a.name() == mesh.names[size_t(axis)]; });
  return row != std::end(kMeshAxes) && row->*role && mesh.sizes[size_t(axis)] > 1;
}

bool HasRole(const MeshShape& mesh, bool MeshAxis::*role) { return RanksWith(mesh, role) > 1; }

int RanksWith(const MeshShape& mesh, bool MeshAxis::*role) {
  int ranks = 1;
  for (int axis = 0; axis < mesh.num_axes(); axis++)
    if (HasRole(mesh, axis, role)) ranks *= mesh.sizes[size_t(axis)];
  return ranks;
}

}  // namespace weft
