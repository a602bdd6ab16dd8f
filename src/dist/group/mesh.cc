#include "weft/dist/group/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

void Check(const MeshShape& shape, int world_size) {
  WEFT_CHECK(shape.names.size() == shape.sizes.size() && shape.num_axes() <= kMaxAxes,
             fmt::format("mesh: {} names and {} sizes; expected one size per axis and at most {} axes",
                         shape.names.size(), shape.sizes.size(), kMaxAxes));
  for (int i = 0; i < shape.num_axes(); i++) {
    const std::string& name = shape.names[size_t(i)];
    WEFT_CHECK(!name.empty() && std::count(shape.names.begin(), shape.names.end(), name) == 1,
               fmt::format("mesh: axis {} is named \"{}\"; every axis needs a name of its own", i, name));
    WEFT_CHECK(shape.sizes[size_t(i)] >= 1, fmt::format("mesh: axis \"{}\" has size {}", name, shape.sizes[size_t(i)]));
  }
  WEFT_CHECK(shape.num_ranks() == world_size,
             fmt::format("mesh: {} has {} ranks, but {} are running", ToString(shape), shape.num_ranks(), world_size));
}

}  // namespace

DeviceMesh::DeviceMesh(Context& context, GroupFactory& groups, MeshShape shape, std::vector<DeviceKind> kinds)
    : shape_(std::move(shape)), rank_(context.rank()), recorder_(std::make_shared<CallRecorder>()) {
  Check(shape_, context.world_size());
  coords_ = shape_.CoordsOf(rank_);
  groups_.resize(size_t(shape_.num_axes()) + 1);
  for (DeviceKind kind : kinds) {
    for (int axis = 0; axis < shape_.num_axes(); axis++) {
      Coords peer = coords_;
      std::vector<int> ranks;
      for (peer[size_t(axis)] = 0; peer[size_t(axis)] < shape_.sizes[size_t(axis)]; peer[size_t(axis)]++)
        ranks.push_back(shape_.RankOf(peer));
      groups_[size_t(axis)][size_t(kind)] = groups.Make(shape_.names[size_t(axis)], ranks, kind);
    }
    std::vector<int> all(static_cast<size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    groups_.back()[size_t(kind)] = groups.Make("world", all, kind);
  }
  for (auto& row : groups_)
    for (auto& group : row)
      if (group) group->set_recorder(recorder_);
}

DeviceMesh::~DeviceMesh() = default;

ProcessGroup& DeviceMesh::Group(int axis, DeviceKind kind) {
  WEFT_CHECK(axis >= 0 && axis < shape_.num_axes(), fmt::format("mesh: axis {} of {}", axis, ToString(shape_)));
  return At(axis, kind);
}

ProcessGroup& DeviceMesh::At(int axis, DeviceKind kind) {
  auto& group = groups_[size_t(axis)][size_t(kind)];
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

void DeviceMesh::ResetCounts() {
  for (auto& row : groups_)
    for (auto& group : row)
      if (group) group->ResetCounts();
}

Runtime RuntimeOf(const Context& context, DeviceMesh& mesh, DeviceKind device) {
  return {&context, &mesh, mesh.shape(), mesh.coords(), device};
}

}  // namespace weft
