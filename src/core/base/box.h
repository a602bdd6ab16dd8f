// Boxes: which part of a global tensor a rank holds, which rank writes it, and copies between overlapping parts.
#pragma once
#include <cstddef>
#include <optional>

#include "weft/core/base/dtype.h"
#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

// A half-open index range [begin, end) in every dim.
struct Box {
  Shape begin, end;
  bool operator==(const Box&) const = default;
};
Shape Extents(const Box& box);
int64_t Volume(const Box& box);
// Returns the intersection, or nullopt if the boxes share no element.
std::optional<Box> Meeting(const Box& a, const Box& b);

// Returns the box that the rank at `coords` holds, or nullopt if it holds no element.
std::optional<Box> HeldBox(const Shape& global, const Sharding& sharding, const MeshShape& mesh, const Coords& coords);
// Returns HeldBox on the lowest rank among those that hold replicas, and nullopt on the others. So every element is
// owned by exactly one rank.
std::optional<Box> OwnedBox(const Shape& global, const Sharding& sharding, const MeshShape& mesh, const Coords& coords);

// The elements of a box in memory.
struct BoxData {
  Box box;
  DType dtype;
  std::byte* data;  // of the element at box.begin; need not be aligned
  Shape strides;    // in elements
};
// Returns the strides of a row-major array, in elements.
Shape RowMajor(const Shape& shape);
// Copies the elements in the intersection of both boxes. Converts them if the dtypes differ.
void CopyMeeting(const BoxData& from, const BoxData& to);

}  // namespace weft
