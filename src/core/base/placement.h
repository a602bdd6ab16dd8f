// Placement: what one mesh axis does to a tensor. Sharding: the placements of all axes, including the order of axes
// that shard the same dim. The vocabulary is DTensor's (PyTorch, torch/distributed/tensor/placement_types.py), with the
// order made explicit.
//
//   Sharding s({Shard(0), Shard(0, /*order=*/0)});   // axis 1 is the major one on dim 0, axis 0 the minor one
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"
#include "weft/core/base/mesh_shape.h"

namespace weft {

enum class ReduceOp : uint8_t { kSum, kMax, kMin };
const char* Name(ReduceOp op);

struct Placement {
  // kKeep may appear only in the target of a reshard. It leaves the axis as it is.
  enum Kind : uint8_t { kReplicate, kShard, kPartial, kKeep };
  Kind kind = kReplicate;
  int8_t dim = 0;                    // kShard: the tensor dim
  ReduceOp reduce = ReduceOp::kSum;  // kPartial: the value is this reduction over the axis
  int8_t order = -1;                 // kShard: position among the axes of that dim, 0 = major; -1 = by axis number
  bool operator==(const Placement&) const = default;
};
inline Placement Replicate() { return {}; }
inline Placement Shard(int dim, int order = -1) {
  return {Placement::kShard, int8_t(dim), ReduceOp::kSum, int8_t(order)};
}
inline Placement Partial(ReduceOp op = ReduceOp::kSum) { return {Placement::kPartial, 0, op}; }
inline Placement Keep() { return {Placement::kKeep}; }
std::string ToString(const Placement& placement);  // "R", "S(0)", "P(sum)", "keep"

using AxisList = absl::InlinedVector<int, 4>;

// Invariant: the axes that shard one dim have the orders 0, 1, 2, ...; other axes have order -1. So two shardings are
// equal exactly if they mean the same layout.
class Sharding {
 public:
  Sharding() = default;
  explicit Sharding(int num_axes) : num_axes_(uint8_t(num_axes)) {}
  Sharding(std::initializer_list<Placement> placements) : Sharding(std::span(placements.begin(), placements.size())) {}
  // Takes placements as a user writes them. Axes without an order come after the ordered ones, by axis number.
  explicit Sharding(std::span<const Placement> placements);

  int num_axes() const { return num_axes_; }
  const Placement& operator[](int axis) const { return axes_[size_t(axis)]; }
  // Sets the placement of `axis` and keeps the invariant. With kShard the axis becomes the minor axis of its dim.
  void Set(int axis, Placement placement);
  AxisList DimAxes(int dim) const;  // the axes that shard dim, major first
  bool IsSharded(int dim) const { return !DimAxes(dim).empty(); }
  bool HasPartial() const;
  bool operator==(const Sharding& other) const;

  template <typename H>
  friend H AbslHashValue(H h, const Sharding& s) {
    for (int i = 0; i < s.num_axes_; i++) {
      const Placement& p = s.axes_[size_t(i)];
      h = H::combine(std::move(h), int(p.kind), p.dim, int(p.reduce), p.order);
    }
    return h;
  }

 private:
  std::array<Placement, kMaxAxes> axes_{};
  uint8_t num_axes_ = 0;
};
// Calls fn(axis, dim) for every axis that shards a dim. The major axis of a dim comes before its minor ones.
template <class Fn>
void ForEachShard(const Sharding& s, Fn fn) {
  for (int order = 0, found = 1; found; order++) {
    found = 0;
    for (int axis = 0; axis < s.num_axes(); axis++) {
      if (s[axis].kind != Placement::kShard || s[axis].order < order) continue;
      if (s[axis].order == order) fn(axis, int(s[axis].dim));
      found = 1;
    }
  }
}
std::string ToString(const Sharding& sharding);  // "(S(0), R)"; shows the order if it differs from axis order

// Returns the layout of a cotangent: Shard and Replicate stay, Partial becomes Replicate.
Sharding Dual(const Sharding& sharding);

}  // namespace weft
