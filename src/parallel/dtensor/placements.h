// Placements: one entry per mesh axis, as a user writes them, and their check against a shape and a mesh.
//
//   DistributeTensor(w, mesh, {Replicate(), Shard(-1)});
//   w.Redistribute({Shard(0, /*order=*/1), Shard(0, /*order=*/0)});   // the second axis is the major one on dim 0
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "weft/core/base/error.h"
#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

// Where a user called what: the beginning of an error's text, made only when there is one.
struct Site {
  const char* what;
  Loc loc;
};
std::string ToString(const Site& site);  // "FromLocal at attention.cc:61"

class Placements {
 public:
  Placements(std::initializer_list<Placement> entries) : entries_(entries) {}
  Placements(std::vector<Placement> entries) : entries_(std::move(entries)) {}
  Placements(const Sharding& sharding);

  // The sharding that they mean for a tensor of this shape: negative dims counted from the end. Throws Error for a
  // wrong number of entries, dims out of range, orders that are none, and Keep() where there is nothing to keep.
  Sharding Check(const Shape& shape, const MeshShape& mesh, const Site& site, bool may_keep = false) const;

 private:
  int NormalDim(const Placement& p, int axis, const Shape& shape, const MeshShape& mesh, const Site& site) const;

  std::vector<Placement> entries_;
};

// Sum, max and min do not commute, so a tensor waits for one of them only.
void CheckOnePartial(const Sharding& sharding, const MeshShape& mesh, const Site& site);

}  // namespace weft
