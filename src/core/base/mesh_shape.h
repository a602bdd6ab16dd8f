// MeshShape: the named axes of a device mesh and their sizes. Ranks are numbered row-major: the last axis is fastest.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

inline constexpr int kMaxAxes = 6;
using Coords = std::vector<int>;  // one coordinate per axis

struct MeshShape {
  std::vector<std::string> names;
  std::vector<int> sizes;

  int num_axes() const { return int(sizes.size()); }
  int num_ranks() const;
  int Axis(std::string_view name) const;  // throws Error if no axis has this name
  Coords CoordsOf(int rank) const;
  int RankOf(const Coords& coords) const;
  bool operator==(const MeshShape&) const = default;
};
std::string ToString(const MeshShape& mesh);  // "dp=2 x tp=2"

}  // namespace weft
