// Boxes: which part of a global tensor a rank holds, which rank writes it, and copies between parts that overlap.
#pragma once
#include <cstddef>
#include <optional>
#include <span>

#include "weft/core/base/dtype.h"
#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

class Tensor;

// [begin, end) in every dim.
struct Box {
  Shape begin, end;
  bool operator==(const Box&) const = default;
};
Shape Extents(const Box& box);
int64_t Volume(const Box& box);
// Nothing where they have no element in common.
std::optional<Box> Meeting(const Box& a, const Box& b);

// What the rank at `coords` holds; nothing where that is nothing.
std::optional<Box> HeldBox(const Shape& global, const Sharding& sharding, const MeshShape& mesh, const Coords& coords);
// The same on the lowest rank of those that hold replicas; nothing on the others: every element is owned once.
std::optional<Box> OwnedBox(const Shape& global, const Sharding& sharding, const MeshShape& mesh, const Coords& coords);

// The elements of a box in memory.
struct BoxData {
  Box box;
  DType dtype;
  std::byte* data;  // of the element at box.begin, at any alignment
  Shape strides;    // in elements
};
// Strides of a row-major array.
Shape RowMajor(const Shape& shape);
// Copies the elements that are in both, converted where the types differ.
void CopyMeeting(const BoxData& from, const BoxData& to);
// Copies into `local`, the storage of the box `held`, what `parts` have of it: where checkpoints that are loaded and
// tensors that move between meshes end. Storage may be padded behind the box and on any device; the parts are on the
// host, in any type, and have every element of the box together.
void FillHeld(const Tensor& local, const Box& held, std::span<const BoxData> parts);

}  // namespace weft
