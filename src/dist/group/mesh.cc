#include "weft/dist/group/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "weft/core/host/suggest.h"
#include "weft/core/runtime/streams.h"
#include "weft/dist/group/consensus.h"
#include "weft/dist/group/group_source.h"

namespace weft {
namespace {

void CheckAxes(const MeshShape& shape, const std::string& mesh) {
  WEFT_CHECK(shape.names.size() == shape.sizes.size() && shape.num_axes() <= kMaxAxes,
             fmt::format("{}: expected one size per axis and at most {} axes, got {} names and {} sizes", mesh,
                         kMaxAxes, shape.names.size(), shape.sizes.size()));
  for (int i = 0; i < shape.num_axes(); i++) {
    const std::string& name = shape.names[size_t(i)];
    auto here = shape.names.begin() + i, first = std::find(shape.names.begin(), here, name);
    const std::string wanted = mesh + ": expected a name of its own for each axis, got ";
    WEFT_CHECK(!name.empty(), fmt::format("{}\"\" for axis {}", wanted, i));
    WEFT_CHECK(first == here, fmt::format("{}\"{}\" for axes {} and {}", wanted, name, first - shape.names.begin(), i));
    WEFT_CHECK(shape.sizes[size_t(i)] >= 1, fmt::format("{}: expected a size of at least 1 for axis \"{}\", got {}",
                                                        mesh, name, shape.sizes[size_t(i)]));
  }
}

// Says how to start as many ranks as the mesh has, or how to make a mesh of those that run.
std::string Remedy(const MeshShape& shape) {
  return fmt::format("start {} with mpirun -np {}, or change a size: DeviceMesh(context, {{{{\"{}\", -1}}}}) takes all",
                     shape.num_ranks(), shape.num_ranks(), shape.num_axes() > 0 ? shape.names[0] : "dp");
}

void Check(const MeshShape& shape, const std::vector<int>& ranks, int world_size, const Loc& loc) {
  const std::string mesh = fmt::format("mesh at {}", ToString(loc));
  CheckAxes(shape, mesh);
  bool all = int(ranks.size()) == world_size;
  WEFT_CHECK(shape.num_ranks() == int(ranks.size()),
             fmt::format("{}: {} needs {} ranks, got {} that are {}; {}", mesh, ToString(shape), shape.num_ranks(),
                         ranks.size(), all ? "running" : "given",
                         all ? Remedy(shape) : fmt::format("list {}, in the order of the mesh", shape.num_ranks())));
  std::vector<bool> seen(static_cast<size_t>(world_size));
  for (int rank : ranks) {
    WEFT_CHECK(
        rank >= 0 && rank < world_size && !seen[size_t(rank)],
        fmt::format("{}: expected ranks of [0, {}), each once, got {}", mesh, world_size, fmt::join(ranks, ", ")));
    seen[size_t(rank)] = true;
  }
}

// Otherwise ranks would exchange data that the device has not computed yet.
void CheckOrder(const Context& context, const ProcessGroup& group) {
  DeviceKind kind = group.device_kind();
  WEFT_CHECK(!context.Has(kind) || !StreamsOf(context.device(kind)) || group.is_stream_ordered(),
             fmt::format("mesh: work on {} continues after the call that issues it, so expected a group \"{}\" that is "
                         "stream ordered, got one that is not; make the mesh with a factory for {} tensors",
                         PlaceOf(context.device(kind)), group.name(), Name(kind)));
}

MeshShape Filled(DeviceMesh::Axes axes, int world_size, const Loc& loc) {
  MeshShape shape;
  int64_t others = 1, holes = 0;
  for (const auto& [name, size] : axes) {
    shape.names.push_back(name);
    shape.sizes.push_back(size);
    if (size == -1)
      holes++;
    else
      others *= size;
  }
  WEFT_CHECK(holes <= 1, fmt::format("mesh at {}: expected at most one axis of size -1, got {}", ToString(loc), holes));
  for (int& size : shape.sizes)
    if (size == -1) size = others > 0 ? int(world_size / others) : 0;
  return shape;
}

std::vector<int> AllRanks(int size) {
  std::vector<int> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

DeviceMesh::DeviceMesh(Context& context, GroupFactory& groups, MeshShape shape, std::vector<DeviceKind> kinds, Loc loc)
    : DeviceMesh(context, groups, std::move(shape), AllRanks(context.world_size()), std::move(kinds), loc) {}

DeviceMesh::DeviceMesh(Context& context, Axes axes, Loc loc)
    : DeviceMesh(context, Filled(axes, context.world_size(), loc), AllRanks(context.world_size()), loc) {}

DeviceMesh::DeviceMesh(Context& context, MeshShape shape, std::vector<int> ranks, Loc loc)
    : DeviceMesh(context, GroupSource::Of(context).groups(), std::move(shape), std::move(ranks),
                 GroupSource::Of(context).kinds(), loc) {
  if (has_this_rank()) GroupSource::Of(context).Watch(*this);
}

DeviceMesh::DeviceMesh(Context& context, GroupFactory& groups, MeshShape shape, std::vector<int> ranks,
                       std::vector<DeviceKind> kinds, Loc loc)
    : context_(&context),
      shape_(std::move(shape)),
      ranks_(std::move(ranks)),
      global_rank_(context.rank()),
      world_size_(context.world_size()),
      recorder_(std::make_shared<CallRecorder>()) {
  Check(shape_, ranks_, world_size_, loc);
  if (auto here = std::find(ranks_.begin(), ranks_.end(), global_rank_); here != ranks_.end()) {
    rank_ = int(here - ranks_.begin());
    coords_ = shape_.CoordsOf(rank_);
  }
  groups_.resize(size_t(shape_.num_axes()) + 1);
  for (DeviceKind kind : kinds)
    for (int axis = 0; axis <= shape_.num_axes(); axis++)
      groups_[size_t(axis)][size_t(kind)] = MakeGroup(groups, axis, kind);
  for (auto& row : groups_)
    for (auto& group : row) {
      if (!group) continue;
      CheckOrder(context, *group);
      group->set_recorder(recorder_);
    }
}

// Makes the group of the ranks along the axis, or of the whole mesh. Making a group is collective over the world, so a
// rank outside the mesh makes a group of itself and drops it.
std::unique_ptr<ProcessGroup> DeviceMesh::MakeGroup(GroupFactory& groups, int axis, DeviceKind kind) const {
  bool all = axis == shape_.num_axes();
  const std::string name = all ? "world" : shape_.names[size_t(axis)];
  if (!has_this_rank()) {
    groups.Make(name, {global_rank_}, kind);
    return nullptr;
  }
  if (all) return groups.Make(name, ranks_, kind);
  Coords peer = coords_;
  std::vector<int> along;
  for (peer[size_t(axis)] = 0; peer[size_t(axis)] < shape_.sizes[size_t(axis)]; peer[size_t(axis)]++)
    along.push_back(ranks_[size_t(shape_.RankOf(peer))]);
  return groups.Make(name, along, kind);
}

int DeviceMesh::Axis(std::string_view axis, const Loc& loc) const {
  auto it = std::find(shape_.names.begin(), shape_.names.end(), axis);
  WEFT_CHECK(it != shape_.names.end(), fmt::format("mesh at {}: expected one of the axes {} of {}, got {:?}{}",
                                                   ToString(loc), fmt::join(shape_.names, ", "), ToString(shape_), axis,
                                                   DidYouMean(std::string(axis), shape_.names)));
  return int(it - shape_.names.begin());
}

DeviceMesh DeviceMesh::Slice(const std::vector<std::string>& axes, Loc loc) const {
  WEFT_CHECK(has_this_rank(), fmt::format("mesh at {}: a slice is of the ranks of {}, and this rank is not among them",
                                          ToString(loc), ToString(shape_)));
  for (const std::string& axis : axes) Axis(axis, loc);
  Submesh slice = SubmeshOf(shape_, axes, rank_);
  for (int& rank : slice.ranks) rank = ranks_[size_t(rank)];
  return DeviceMesh(*context_, std::move(slice.shape), std::move(slice.ranks), loc);
}

DeviceMesh DeviceMesh::Flatten(std::string_view axis, Loc loc) const {
  return DeviceMesh(*context_, MeshShape{{std::string(axis)}, {size()}}, ranks_, loc);
}

GroupSource& GroupSource::Of(const Context& context) {
  auto* source = dynamic_cast<GroupSource*>(context.service());
  WEFT_CHECK(source, "mesh: expected a context of Context::FromEnvironment, got another; give the mesh a GroupFactory");
  return *source;
}

bool DeviceMesh::IsOf(const Context& context) const {
  return context.rank() == global_rank_ && context.world_size() == world_size_;
}

DeviceMesh::~DeviceMesh() {
  std::shared_ptr<void> watch = on_end_ ? on_end_(*this) : nullptr;
  groups_.clear();
}

std::vector<uint64_t> DeviceMesh::NumCalls() const {
  std::vector<uint64_t> calls;
  for (auto& row : groups_)
    for (auto& group : row)
      if (group) calls.push_back(group->sequence());
  return calls;
}

ProcessGroup& DeviceMesh::Group(int axis, DeviceKind kind) {
  WEFT_CHECK(axis >= 0 && axis < shape_.num_axes(), fmt::format("mesh: axis {} of {}", axis, ToString(shape_)));
  return At(axis, kind);
}

ProcessGroup& DeviceMesh::At(int axis, DeviceKind kind) {
  auto& group = groups_[size_t(axis)][size_t(kind)];
  WEFT_CHECK(has_this_rank(), fmt::format("mesh: rank {} is not among the ranks {} of {}", global_rank_,
                                          fmt::join(ranks_, ", "), ToString(shape_)));
  WEFT_CHECK(group, fmt::format("mesh: {} was not made for {} tensors", ToString(shape_), Name(kind)));
  return *group;
}

void DeviceMesh::set_timeout(std::chrono::milliseconds timeout) {
  for (auto& row : groups_)
    for (auto& group : row)
      if (group) group->set_timeout(timeout);
}

void DeviceMesh::set_failure_handler(const ProcessGroup::FailureHandler& handler) {
  for (auto& row : groups_)
    for (auto& group : row)
      if (group) group->set_failure_handler(handler);
}

void DeviceMesh::set_call_filter(const ProcessGroup::CallFilter& filter) {
  for (auto& row : groups_)
    for (auto& group : row)
      if (group) group->set_call_filter(filter);
}

void DeviceMesh::set_call_delay(std::chrono::microseconds most) {
  for (auto& row : groups_)
    for (auto& group : row)
      if (group) group->set_call_delay(most);
}

std::vector<DeviceMesh::AxisCount> DeviceMesh::Counts() const {
  std::vector<AxisCount> counts;
  for (int axis = 0; axis <= shape_.num_axes(); axis++) {
    for (int op = 0; op < kNumCollectiveOps; op++) {
      CallCount sum;
      for (auto& group : groups_[size_t(axis)]) {
        if (!group) continue;
        CallCount count = group->count(CollectiveOp(op));
        sum.calls += count.calls;
        sum.bytes += count.bytes;
        sum.sent += count.sent;
        sum.received += count.received;
      }
      if (sum.calls) counts.push_back({axis, CollectiveOp(op), sum});
    }
  }
  return counts;
}

std::string DeviceMesh::FromFirstRank(absl::FunctionRef<std::string()> make) {
  constexpr char kMade = '+', kThrew = '-';
  std::string mine;
  if (rank_ == 0) try {
      mine = kMade + make();
    } catch (const std::exception& e) {
      mine = std::string(1, kThrew) + e.what();
    }
  std::string first = GatherBytes(World(), mine)[0];
  WEFT_CHECK(first[0] == kMade, first.substr(1));
  return first.substr(1);
}

void DeviceMesh::ResetCounts() {
  for (auto& row : groups_)
    for (auto& group : row)
      if (group) group->ResetCounts();
}

Submesh SubmeshOf(const MeshShape& mesh, std::span<const std::string> axes, int rank) {
  Submesh sub;
  std::vector<bool> kept(mesh.names.size());
  for (const std::string& name : axes) kept[size_t(mesh.Axis(name))] = true;
  for (size_t a = 0; a < kept.size(); a++) {
    if (!kept[a]) continue;
    sub.shape.names.push_back(mesh.names[a]);
    sub.shape.sizes.push_back(mesh.sizes[a]);
  }
  Coords here = mesh.CoordsOf(rank);
  for (int other = 0; other < mesh.num_ranks(); other++) {
    Coords there = mesh.CoordsOf(other);
    bool differs = false;
    for (size_t a = 0; a < kept.size(); a++) differs |= !kept[a] && there[a] != here[a];
    if (!differs) sub.ranks.push_back(other);
  }
  return sub;
}

Runtime RuntimeOf(const Context& context, DeviceMesh& mesh, DeviceKind device) {
  return {&context, &mesh, mesh.shape(), mesh.coords(), device, mesh.overlap(), mesh.chunks()};
}

}  // namespace weft
