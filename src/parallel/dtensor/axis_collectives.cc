#include "weft/parallel/dtensor/axis_collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace weft::collectives {
namespace {

const char* Name(Placement::Kind kind) { return kind == Placement::kPartial ? "Partial" : "Shard"; }

int AxisOf(const DTensor& x, std::string_view axis, const Site& site) {
  const std::vector<std::string>& names = x.mesh().shape().names;
  auto at = std::find(names.begin(), names.end(), axis);
  WEFT_CHECK(at != names.end(), fmt::format("{}: expected one of the axes {} of the mesh, got \"{}\"", ToString(site),
                                            fmt::join(names, ", "), axis));
  return int(at - names.begin());
}

// Returns x with another placement on one axis, where it must have one of this kind.
DTensor Change(const DTensor& x, std::string_view axis, Placement::Kind from, const Placement& to, const Site& site) {
  WEFT_CHECK(bool(x), fmt::format("{}: the DTensor is empty; assign one first", ToString(site)));
  const MeshShape& mesh = x.mesh().shape();
  int at = AxisOf(x, axis, site);
  std::vector<Placement> target(size_t(mesh.num_axes()), Keep());
  target[size_t(at)] = to;
  Placements(target).Check(x.shape(), mesh, site, /*may_keep=*/true);
  if (mesh.sizes[size_t(at)] == 1) return x;
  WEFT_CHECK(x.placements()[at].kind == from,
             fmt::format("{}: expected a DTensor that is {} on axis \"{}\", got {}; Redistribute takes every placement",
                         ToString(site), Name(from), axis, ToString(x)));
  return x.Redistribute(target, site.loc);
}

}  // namespace

DTensor AllReduce(const DTensor& x, std::string_view axis, Loc loc) {
  return Change(x, axis, Placement::kPartial, Replicate(), {"AllReduce", loc});
}
DTensor AllGather(const DTensor& x, std::string_view axis, Loc loc) {
  return Change(x, axis, Placement::kShard, Replicate(), {"AllGather", loc});
}
DTensor ReduceScatter(const DTensor& x, std::string_view axis, int dim, Loc loc) {
  return Change(x, axis, Placement::kPartial, Shard(dim), {"ReduceScatter", loc});
}
DTensor AllToAll(const DTensor& x, std::string_view axis, int split_dim, Loc loc) {
  return Change(x, axis, Placement::kShard, Shard(split_dim), {"AllToAll", loc});
}

}  // namespace weft::collectives
