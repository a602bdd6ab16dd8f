// Placements: one entry per mesh axis, as a user writes them. Check validates them for a shape and a mesh.
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

// The function that a user called, and the line of the call. Errors begin with it. Its text is made only for an error.
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

  // Returns the sharding that the entries mean for a tensor of this shape. Negative dims count from the end. Throws
  // Error for a wrong number of entries, for a dim out of range, for duplicate or too large orders, and for Keep()
  // unless `may_keep` is set. Orders are not checked if an entry is Keep().
  Sharding Check(const Shape& shape, const MeshShape& mesh, const Site& site, bool may_keep = false) const;

 private:
  int NormalDim(const Placement& p, int axis, const Shape& shape, const MeshShape& mesh, const Site& site) const;

  std::vector<Placement> entries_;
};

// Throws Error if axes have Partial placements with different reductions, because sum, max and min do not commute.
void CheckOnePartial(const Sharding& sharding, const MeshShape& mesh, const Site& site);

}  // namespace weft
