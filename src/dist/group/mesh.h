// DeviceMesh: the ranks as a grid with named axes, and the process groups along them.
//
//   DeviceMesh mesh(context, groups, {{"dp", "tp"}, {2, 4}});
//   mesh.Group("tp").AllReduce(...);       // with the ranks that differ from this one in "tp" alone
//   Submesh inner = SubmeshOf(mesh.shape(), {"tp"}, context.rank());
//   DeviceMesh tp(context, groups, inner.shape, inner.ranks);
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/core/base/mesh_shape.h"
#include "weft/core/compile/runtime.h"
#include "weft/core/runtime/collective_context.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/call_record.h"
#include "weft/dist/group/group_factory.h"

namespace weft {

class DeviceMesh final : public CollectiveContext {
 public:
  // Makes a group per axis and kind, and the world's. All ranks construct their meshes in the same order. Throws Error
  // when the shape is not one (names empty or twice, sizes below 1, too many axes) or does not have
  // context.world_size() ranks.
  DeviceMesh(Context& context, GroupFactory& groups, MeshShape shape,
             std::vector<DeviceKind> kinds = {DeviceKind::kCpu});
  // A mesh of some of the ranks, those of `ranks` in the order of the shape. All ranks of the world construct it
  // together: those of the mesh with the same ranks, and the others with ranks that they are not among, or with those
  // of another mesh of the same shape that has no rank in common with it (a submesh). A rank outside of the mesh has no
  // groups. Throws Error as above, or where a rank stands twice or is none of the world.
  DeviceMesh(Context& context, GroupFactory& groups, MeshShape shape, std::vector<int> ranks,
             std::vector<DeviceKind> kinds = {DeviceKind::kCpu});
  ~DeviceMesh() override;
  DeviceMesh(const DeviceMesh&) = delete;
  DeviceMesh& operator=(const DeviceMesh&) = delete;

  const MeshShape& shape() const { return shape_; }
  const Coords& coords() const { return coords_; }  // of this rank; none where it is outside
  int rank() const { return rank_; }                // of this rank in the mesh, and in World(); -1: it is outside
  int size() const { return shape_.num_ranks(); }
  bool has_this_rank() const { return rank_ >= 0; }
  const std::vector<int>& ranks() const { return ranks_; }  // of the world, in the order of the mesh
  bool IsOf(const Context& context) const;                  // made with a context of this rank and world

  // The rank in a group is the coordinate on its axis. These throw Error for an unknown axis or a kind the mesh was not
  // made for.
  ProcessGroup& Group(int axis, DeviceKind kind = DeviceKind::kCpu);
  ProcessGroup& Group(std::string_view axis, DeviceKind kind = DeviceKind::kCpu) {
    return Group(shape_.Axis(axis), kind);
  }
  ProcessGroup& World(DeviceKind kind = DeviceKind::kCpu) { return At(shape_.num_axes(), kind); }

  void set_timeout(std::chrono::milliseconds timeout);  // of all groups
  void set_failure_handler(const ProcessGroup::FailureHandler& handler);
  void set_call_filter(const ProcessGroup::CallFilter& filter);

  // What this rank has called since the last reset, summed over device kinds; only ops that were called, by axis then
  // op.
  struct AxisCount {
    int axis;  // num_axes() for the world's group
    CollectiveOp op;
    CallCount count;
    bool operator==(const AxisCount&) const = default;
  };
  std::vector<AxisCount> Counts() const;
  void ResetCounts();

  const std::shared_ptr<CallRecorder>& recorder() const { return recorder_; }  // of all groups of this rank

 private:
  ProcessGroup& At(int axis, DeviceKind kind);
  std::unique_ptr<ProcessGroup> MakeGroup(GroupFactory& groups, int axis, DeviceKind kind) const;

  MeshShape shape_;
  std::vector<int> ranks_;
  int global_rank_, world_size_;
  int rank_ = -1;
  Coords coords_;
  std::shared_ptr<CallRecorder> recorder_;
  std::vector<std::array<std::unique_ptr<ProcessGroup>, kNumDeviceKinds>> groups_;  // per axis, then the world
};

// The ranks that differ from `rank` in these axes only, as the mesh that they make. The axes keep their order. Ranks
// are those of the mesh.
struct Submesh {
  MeshShape shape;
  std::vector<int> ranks;
};
Submesh SubmeshOf(const MeshShape& mesh, std::span<const std::string> axes, int rank);

// What this rank needs to run local ops on a device of the mesh. The context and the mesh outlive it.
Runtime RuntimeOf(const Context& context, DeviceMesh& mesh, DeviceKind device = DeviceKind::kCpu);

}  // namespace weft
