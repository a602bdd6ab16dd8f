#include "weft/parallel/dtensor/move.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "weft/core/base/box.h"
#include "weft/core/base/shard.h"
#include "weft/core/runtime/filler.h"

namespace weft {
namespace {

using BoxFn = std::optional<Box> (*)(const Shape&, const Sharding&, const MeshShape&, const Coords&);

// Returns HeldBox or OwnedBox (`box`) of a rank of the world, and nullopt for a rank outside the layout.
std::optional<Box> BoxOf(BoxFn box, const Shape& global, const MeshLayout& layout, int rank) {
  auto place = std::find(layout.ranks.begin(), layout.ranks.end(), rank);
  if (place == layout.ranks.end()) return std::nullopt;
  return box(global, layout.sharding, layout.mesh, layout.mesh.CoordsOf(int(place - layout.ranks.begin())));
}

// Boxes packed into one buffer, one per rank of a group. A rank may have none.
struct Parcels {
  std::vector<std::optional<Box>> boxes;
  std::vector<int64_t> counts;  // of elements
  std::vector<std::byte> bytes;

  void Add(const std::optional<Box>& a, const std::optional<Box>& b) {
    boxes.push_back(a && b ? Meeting(*a, *b) : std::nullopt);
    counts.push_back(boxes.back() ? Volume(*boxes.back()) : 0);
  }
  // Allocates the buffer. Returns the boxes that are not empty, with their location in the buffer.
  std::vector<BoxData> Allocate(DType dtype) {
    bytes.resize(size_t(std::accumulate(counts.begin(), counts.end(), int64_t{0})) * SizeOf(dtype));
    std::vector<BoxData> parts;
    std::byte* next = bytes.data();
    for (size_t i = 0; i < boxes.size(); i++) {
      if (boxes[i]) parts.push_back({*boxes[i], dtype, next, RowMajor(Extents(*boxes[i]))});
      next += size_t(counts[i]) * SizeOf(dtype);
    }
    return parts;
  }
};

void CheckCovers(const ProcessGroup& group, const MeshLayout& layout, const Loc& loc) {
  for (int rank : layout.ranks)
    WEFT_CHECK(std::count(group.ranks().begin(), group.ranks().end(), rank) == 1,
               fmt::format("move at {}: expected a group of all ranks of both meshes, got \"{}\" without rank {}; pass "
                           "the world of a mesh that has them all",
                           ToString(loc), group.name(), rank));
  WEFT_CHECK(!layout.sharding.HasPartial(),
             fmt::format("move at {}: {} has sums that are not complete; reshard it first", ToString(loc),
                         ToString(layout.sharding)));
}

// Describes a tensor to ranks outside its mesh: dtype, rank, shape and, per axis, the sharded dim and its order. Dim -1
// means that the axis shards no dim.
constexpr size_t kMetaInts = 2 + kMaxRank + 2 * kMaxAxes;
using Meta = std::array<int64_t, kMetaInts>;
Meta Pack(const GlobalTensor& tensor, const Sharding& sharding) {
  Meta meta{int64_t(tensor.dtype), int64_t(tensor.shape.size())};
  std::copy(tensor.shape.begin(), tensor.shape.end(), meta.begin() + 2);
  for (int axis = 0; axis < sharding.num_axes(); axis++) {
    bool cut = sharding[axis].kind == Placement::kShard;
    meta[2 + kMaxRank + 2 * size_t(axis)] = cut ? sharding[axis].dim : -1;
    meta[3 + kMaxRank + 2 * size_t(axis)] = sharding[axis].order;
  }
  return meta;
}
GlobalTensor TensorOf(const Meta& meta) {
  return {DType(meta[0]), Shape(meta.begin() + 2, meta.begin() + 2 + meta[1])};
}
Sharding ShardingOf(const Meta& meta, int axes) {
  std::vector<Placement> placements;
  for (size_t axis = 0; axis < size_t(axes); axis++) {
    int64_t dim = meta[2 + kMaxRank + 2 * axis], order = meta[3 + kMaxRank + 2 * axis];
    placements.push_back(dim < 0 ? Replicate() : Shard(int(dim), int(order)));
  }
  return Sharding(std::span<const Placement>(placements));
}

// Returns the group rank of the mesh's first rank.
int FirstOf(const DeviceMesh& mesh, const ProcessGroup& group) {
  auto first = std::find(group.ranks().begin(), group.ranks().end(), mesh.ranks()[0]);
  return int(first - group.ranks().begin());
}

}  // namespace

Tensor MoveTensor(const Tensor& local, const GlobalTensor& tensor, const MeshLayout& from, const MeshLayout& to,
                  ProcessGroup& group, DeviceRuntime& device, Loc loc) {
  CheckCovers(group, from, loc);
  CheckCovers(group, to, loc);
  int me = group.ranks()[size_t(group.rank())];
  std::optional<Box> owned = BoxOf(OwnedBox, tensor.shape, from, me), held = BoxOf(HeldBox, tensor.shape, to, me);
  Parcels out, in;
  for (int rank : group.ranks()) {
    out.Add(owned, BoxOf(HeldBox, tensor.shape, to, rank));
    in.Add(held, BoxOf(OwnedBox, tensor.shape, from, rank));
  }
  if (owned) {
    Tensor host = local.device().kind == DeviceKind::kCpu ? local : local.To(CpuRuntime());
    BoxData mine{*owned, tensor.dtype, host.as<std::byte>(), RowMajor(host.shape())};
    for (const BoxData& part : out.Allocate(tensor.dtype)) CopyMeeting(mine, part);
  }
  std::vector<BoxData> parts = in.Allocate(tensor.dtype);
  group.AllToAllV(out.bytes.data(), out.counts, in.bytes.data(), in.counts, tensor.dtype, loc);
  if (std::count(to.ranks.begin(), to.ranks.end(), me) == 0) return {};
  Tensor moved = Tensor::Zeros(tensor.dtype, ChunkShape(tensor.shape, to.sharding, to.mesh), device);
  if (held) FillHeld(moved, *held, parts);
  return moved;
}

DTensor Redistribute(const DTensor& x, DeviceMesh& from, DeviceMesh& to, const Placements& placements,
                     ProcessGroup& group, Loc loc) {
  Site site{"Redistribute", loc};
  WEFT_CHECK(bool(x) == from.has_this_rank() && (!x || &x.mesh() == &from),
             fmt::format("{}: expected a DTensor of the first mesh ({}) on its ranks and an empty one on others, got "
                         "{}",
                         ToString(site), ToString(from.shape()), ToString(x)));
  Meta meta{};
  Tensor local;
  if (x) {
    DTensor whole = x.Detach({}, loc).Redistribute(Dual(x.placements()), loc);
    meta = Pack({x.dtype(), x.shape()}, whole.placements());
    local = whole.Storage();
  }
  group.Broadcast(meta.data(), int64_t(meta.size()), DType::kI64, FirstOf(from, group), loc);
  GlobalTensor tensor = TensorOf(meta);
  Sharding target = placements.Check(tensor.shape, to.shape(), site);
  CheckOnePartial(target, to.shape(), site);
  MeshLayout source{from.shape(), from.ranks(), ShardingOf(meta, from.shape().num_axes())};
  MeshLayout goal{to.shape(), to.ranks(), Dual(target)};
  std::shared_ptr<EagerSession> session = to.has_this_rank() ? EagerScope::Need(to, site) : nullptr;
  Tensor moved = MoveTensor(local, tensor, source, goal, group, session ? session->memory() : CpuRuntime(), loc);
  if (!session) return {};
  DTensor y = FromStorage(session, moved, tensor.shape, goal.sharding, {}, site);
  return target.HasPartial() ? y.Redistribute(target, loc) : y;
}

}  // namespace weft
