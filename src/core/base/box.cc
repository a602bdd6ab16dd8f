#include "weft/core/base/box.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "weft/core/base/shard.h"

namespace weft {
namespace {

template <class From, class To>
To Convert(From value) {
  if constexpr (std::is_same_v<To, double> || std::is_integral_v<To>)
    return To(Compute<From>(value));
  else
    return To(float(Compute<From>(value)));
}

// Copies `n` elements, with fixed strides in source and target.
void CopyRow(const BoxData& from, int64_t source, const BoxData& to, int64_t target, int64_t n, int64_t from_step,
             int64_t to_step) {
  Dispatch(from.dtype, [&](auto source_zero) {
    Dispatch(to.dtype, [&](auto target_zero) {
      using From = decltype(source_zero);
      using To = decltype(target_zero);
      for (int64_t i = 0; i < n; i++) {
        From value;
        std::memcpy(&value, from.data + size_t(source + i * from_step) * sizeof value, sizeof value);
        To converted = Convert<From, To>(value);
        std::memcpy(to.data + size_t(target + i * to_step) * sizeof converted, &converted, sizeof converted);
      }
    });
  });
}

int64_t PlaceIn(const BoxData& data, const Shape& at) {
  int64_t place = 0;
  for (size_t d = 0; d < at.size(); d++) place += (at[d] - data.box.begin[d]) * data.strides[d];
  return place;
}

}  // namespace

Shape Extents(const Box& box) {
  Shape extents = box.end;
  for (size_t d = 0; d < extents.size(); d++) extents[d] -= box.begin[d];
  return extents;
}

int64_t Volume(const Box& box) { return NumElements(Extents(box)); }

std::optional<Box> Meeting(const Box& a, const Box& b) {
  Box both = a;
  for (size_t d = 0; d < a.begin.size(); d++) {
    both.begin[d] = std::max(a.begin[d], b.begin[d]);
    both.end[d] = std::min(a.end[d], b.end[d]);
    if (both.begin[d] >= both.end[d]) return std::nullopt;
  }
  return both;
}

std::optional<Box> HeldBox(const Shape& global, const Sharding& sharding, const MeshShape& mesh, const Coords& coords) {
  Box box{Shape(global.size(), 0), global};
  for (size_t d = 0; d < global.size(); d++) {
    DimShard shard = ShardOfDim(global[d], sharding.DimAxes(int(d)), mesh, coords);
    if (shard.extent == 0) return std::nullopt;
    box.begin[d] = shard.offset;
    box.end[d] = shard.offset + shard.extent;
  }
  return box;
}

std::optional<Box> OwnedBox(const Shape& global, const Sharding& sharding, const MeshShape& mesh,
                            const Coords& coords) {
  for (int axis = 0; axis < mesh.num_axes(); axis++)
    if (sharding[axis].kind != Placement::kShard && coords[size_t(axis)] != 0) return std::nullopt;
  return HeldBox(global, sharding, mesh, coords);
}

Shape RowMajor(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

void CopyMeeting(const BoxData& from, const BoxData& to) {
  std::optional<Box> both = Meeting(from.box, to.box);
  if (!both) return;
  size_t rank = both->begin.size();
  int64_t row = rank ? both->end[rank - 1] - both->begin[rank - 1] : 1;
  int64_t from_step = rank ? from.strides[rank - 1] : 1, to_step = rank ? to.strides[rank - 1] : 1;
  bool plain = from.dtype == to.dtype && from_step == 1 && to_step == 1;
  size_t size = SizeOf(to.dtype);
  Shape at = both->begin;
  for (size_t d = rank;;) {  // an odometer over all dims but the last
    int64_t source = PlaceIn(from, at), target = PlaceIn(to, at);
    if (plain)
      std::memcpy(to.data + size_t(target) * size, from.data + size_t(source) * size, size_t(row) * size);
    else
      CopyRow(from, source, to, target, row, from_step, to_step);
    for (d = rank ? rank - 1 : 0; d > 0; d--) {
      if (++at[d - 1] < both->end[d - 1]) break;
      at[d - 1] = both->begin[d - 1];
    }
    if (d == 0) return;
  }
}

}  // namespace weft
