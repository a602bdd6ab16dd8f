#include "weft/parallel/dtensor/placements.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

std::string Describe(const std::vector<Placement>& entries) {
  std::string text = "(";
  for (const Placement& p : entries) {
    if (text.size() > 1) text += ", ";
    text += p.kind == Placement::kShard && p.order >= 0 ? fmt::format("S({})#{}", p.dim, p.order) : ToString(p);
  }
  return text + ")";
}

// Throws Error unless the explicit orders on each dim are distinct and below the number of axes that shard it.
void CheckOrders(const std::vector<Placement>& entries, const Site& site) {
  auto on_dim = [&](const Placement& p) {
    return [&p](const Placement& q) { return q.kind == Placement::kShard && q.dim == p.dim; };
  };
  for (const Placement& p : entries) {
    if (p.kind != Placement::kShard || p.order < 0) continue;
    auto axes = std::count_if(entries.begin(), entries.end(), on_dim(p));
    auto same = std::count_if(entries.begin(), entries.end(),
                              [&](const Placement& q) { return on_dim(p)(q) && q.order == p.order; });
    WEFT_CHECK(same == 1 && p.order < axes, fmt::format("{}: expected each of the orders 0 (major) to {} at most once "
                                                        "on dim {}, got {}; correct or leave out the orders",
                                                        ToString(site), axes - 1, p.dim, Describe(entries)));
  }
}

}  // namespace

std::string ToString(const Site& site) { return fmt::format("{} at {}", site.what, ToString(site.loc)); }

Placements::Placements(const Sharding& sharding) {
  for (int axis = 0; axis < sharding.num_axes(); axis++) entries_.push_back(sharding[axis]);
}

int Placements::NormalDim(const Placement& p, int axis, const Shape& shape, const MeshShape& mesh,
                          const Site& site) const {
  int rank = int(shape.size());
  WEFT_CHECK(p.dim >= -rank && p.dim < rank,
             fmt::format("{}: {} on axis \"{}\" names no dim of {}; expected one in [{}, {})", ToString(site),
                         ToString(p), mesh.names[size_t(axis)], ToString(shape), -rank, rank));
  return p.dim < 0 ? p.dim + rank : p.dim;
}

Sharding Placements::Check(const Shape& shape, const MeshShape& mesh, const Site& site, bool may_keep) const {
  WEFT_CHECK(int(entries_.size()) == mesh.num_axes(),
             fmt::format("{}: expected {} placements, one per axis of the mesh {}, got {} in {}", ToString(site),
                         mesh.num_axes(), ToString(mesh), entries_.size(), Describe(entries_)));
  std::vector<Placement> entries = entries_;
  bool keeps = false;
  for (int axis = 0; axis < mesh.num_axes(); axis++) {
    Placement& p = entries[size_t(axis)];
    if (p.kind == Placement::kShard) p.dim = int8_t(NormalDim(p, axis, shape, mesh, site));
    keeps |= p.kind == Placement::kKeep;
  }
  WEFT_CHECK(may_keep || !keeps, fmt::format("{}: Keep() in {} has nothing to keep; only Redistribute takes it",
                                             ToString(site), Describe(entries_)));
  // A kept axis may shard the same dim, so orders can be checked only if no axis is kept.
  if (!keeps) CheckOrders(entries, site);
  return Sharding(std::span<const Placement>(entries));
}

void CheckOnePartial(const Sharding& sharding, const MeshShape& mesh, const Site& site) {
  int first = -1;
  for (int axis = 0; axis < sharding.num_axes(); axis++) {
    if (sharding[axis].kind != Placement::kPartial) continue;
    if (first < 0) first = axis;
    WEFT_CHECK(sharding[axis].reduce == sharding[first].reduce,
               fmt::format("{}: {} on axis \"{}\" and {} on axis \"{}\" do not mix; expected one kind of Partial",
                           ToString(site), ToString(sharding[first]), mesh.names[size_t(first)],
                           ToString(sharding[axis]), mesh.names[size_t(axis)]));
  }
}

}  // namespace weft
