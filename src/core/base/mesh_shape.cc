#include "weft/core/base/mesh_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/core/base/error.h"

namespace weft {

int MeshShape::num_ranks() const {
  int n = 1;
  for (int size : sizes) n *= size;
  return n;
}

int MeshShape::Axis(std::string_view name) const {
  for (int i = 0; i < num_axes(); i++)
    if (names[size_t(i)] == name) return i;
  Fail(fmt::format("mesh: no axis is named \"{}\"; the axes are {}", name, fmt::join(names, ", ")));
}

Coords MeshShape::CoordsOf(int rank) const {
  Coords coords(sizes.size());
  for (int i = num_axes() - 1; i >= 0; i--) {
    coords[size_t(i)] = rank % sizes[size_t(i)];
    rank /= sizes[size_t(i)];
  }
  return coords;
}

int MeshShape::RankOf(const Coords& coords) const {
  int rank = 0;
  for (int i = 0; i < num_axes(); i++) rank = rank * sizes[size_t(i)] + coords[size_t(i)];
  return rank;
}

std::string ToString(const MeshShape& mesh) {
  std::string text;
  for (int i = 0; i < mesh.num_axes(); i++)
    text += fmt::format("{}{}={}", i ? " x " : "", mesh.names[size_t(i)], mesh.sizes[size_t(i)]);
  return text;
}

}  // namespace weft
