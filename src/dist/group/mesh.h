// DeviceMesh: arranges the ranks as a grid with named axes, with process groups along the axes.
//
//   DeviceMesh mesh(context, groups, {{"dp", "tp"}, {2, 4}});
//   mesh.Group("tp").AllReduce(...);       // among the ranks that differ from this one only in "tp"
//   Submesh inner = SubmeshOf(mesh.shape(), {"tp"}, context.rank());
//   DeviceMesh tp(context, groups, inner.shape, inner.ranks);
#pragma once
#include <chrono>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/core/base/mesh_shape.h"
#include "weft/core/compile/runtime.h"
#include "weft/core/runtime/collective_context.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/call_record.h"
#include "weft/dist/group/group_factory.h"

namespace weft {

// The name of an axis, and the line that gives it.
struct AxisAt {
  template <class Name>
  requires std::convertible_to<Name, std::string_view> AxisAt(const Name& axis, Loc site = Loc::current())
      : name(std::string_view(axis)), loc(site) {}

  std::string name;
  Loc loc;
};

class DeviceMesh final : public CollectiveContext {
 public:
  // Makes a group per axis and kind, and one of the whole mesh. The context must outlive the mesh. Collective: all
  // ranks construct their meshes in the same order. Throws Error unless the shape is valid (names that are unique and
  // not empty, sizes of at least 1, not too many axes) and has context.world_size() ranks. Errors name the line `loc`.
  DeviceMesh(Context& context, GroupFactory& groups, MeshShape shape,
             std::vector<DeviceKind> kinds = {DeviceKind::kCpu}, Loc loc = Loc::current());
  // Makes the mesh for a context of Context::FromEnvironment, with groups for all its devices. One size may be -1:
  // it becomes what fills the world.
  using Axes = std::initializer_list<std::pair<std::string, int>>;
  DeviceMesh(Context& context, Axes axes, Loc loc = Loc::current());
  // A mesh of some of the ranks, given by `ranks` in the order of the shape. Collective over the world. Ranks of the
  // mesh pass the same list. Other ranks pass a list that does not contain them, or that of a mesh of the same shape
  // that has no rank in common with this one (a submesh). A rank outside its mesh has no groups. Throws Error as above,
  // or if `ranks` has duplicates or ranks outside the world.
  DeviceMesh(Context& context, GroupFactory& groups, MeshShape shape, std::vector<int> ranks,
             std::vector<DeviceKind> kinds = {DeviceKind::kCpu}, Loc loc = Loc::current());
  // Makes it for a context of Context::FromEnvironment.
  DeviceMesh(Context& context, MeshShape shape, std::vector<int> ranks, Loc loc = Loc::current());
  ~DeviceMesh() override;
  DeviceMesh(const DeviceMesh&) = delete;
  DeviceMesh& operator=(const DeviceMesh&) = delete;

  const MeshShape& shape() const { return shape_; }
  const Coords& coords() const { return coords_; }  // this rank's coordinates; empty if it is outside
  int rank() const { return rank_; }                // this rank's index in the mesh and in World(); -1 if it is outside
  int size() const { return shape_.num_ranks(); }
  bool has_this_rank() const { return rank_ >= 0; }
  const std::vector<int>& ranks() const { return ranks_; }  // global ranks in the order of the mesh
  bool IsOf(const Context& context) const;                  // whether its context had the same rank and world
  Context& context() const { return *context_; }

  // The mesh of the ranks that differ from this one in these axes only, which keep their order: mesh["tp"]. Collective
  // over this mesh, of a context that Context::FromEnvironment has made. Throws Error for an unknown axis.
  DeviceMesh operator[](const AxisAt& axis) const { return Slice({axis.name}, axis.loc); }
  DeviceMesh Slice(const std::vector<std::string>& axes, Loc loc = Loc::current()) const;
  // All ranks of this mesh in their order, along one axis. Otherwise as Slice.
  DeviceMesh Flatten(std::string_view axis, Loc loc = Loc::current()) const;

  // Returns the index of an axis. Throws Error for an unknown axis, with the line.
  int Axis(std::string_view axis, const Loc& loc) const;
  // The rank in a group is the coordinate on its axis. Group and World throw Error for an unknown axis, for a kind that
  // the mesh was not made for, and on a rank outside the mesh.
  ProcessGroup& Group(int axis, DeviceKind kind = DeviceKind::kCpu);
  ProcessGroup& Group(std::string_view axis, DeviceKind kind = DeviceKind::kCpu) {
    return Group(shape_.Axis(axis), kind);
  }
  ProcessGroup& World(DeviceKind kind = DeviceKind::kCpu) { return At(shape_.num_axes(), kind); }

  std::string FromFirstRank(absl::FunctionRef<std::string()> make) override;

  void set_timeout(std::chrono::milliseconds timeout);  // for all groups
  // Whether programs that are compiled from now on overlap collectives and kernels, and in how many chunks
  // (Runtime::chunks). Must be the same on all ranks.
  void set_overlap(OverlapMode mode, int chunks = 0) {
    overlap_ = mode;
    chunks_ = chunks;
  }
  OverlapMode overlap() const { return overlap_; }
  int chunks() const { return chunks_; }
  void set_failure_handler(const ProcessGroup::FailureHandler& handler);
  // Called when this rank destroys the mesh, which waits for the others. The result lives until they have come.
  using EndHandler = std::function<std::shared_ptr<void>(const DeviceMesh& mesh)>;
  void set_end_handler(EndHandler handler) { on_end_ = std::move(handler); }
  void set_call_filter(const ProcessGroup::CallFilter& filter);
  void set_call_delay(std::chrono::microseconds most);

  // The calls of this rank since the last reset, summed over device kinds. Only ops that were called are listed, by
  // axis and then by op.
  struct AxisCount {
    int axis;  // num_axes() for the group of the whole mesh
    CollectiveOp op;
    CallCount count;
    bool operator==(const AxisCount&) const = default;
  };
  std::vector<AxisCount> Counts() const;
  void ResetCounts();
  // Returns the number of collectives that this rank has called on each group of the recorder.
  std::vector<uint64_t> NumCalls() const;

  const std::shared_ptr<CallRecorder>& recorder() const { return recorder_; }  // shared by all groups of this mesh

 private:
  ProcessGroup& At(int axis, DeviceKind kind);
  std::unique_ptr<ProcessGroup> MakeGroup(GroupFactory& groups, int axis, DeviceKind kind) const;

  Context* context_;
  MeshShape shape_;
  std::vector<int> ranks_;
  int global_rank_, world_size_;
  int rank_ = -1;
  Coords coords_;
  OverlapMode overlap_ = OverlapMode::kAuto;
  int chunks_ = 0;
  std::shared_ptr<CallRecorder> recorder_;
  EndHandler on_end_;
  std::vector<std::array<std::unique_ptr<ProcessGroup>, kNumDeviceKinds>> groups_;  // per axis, then the whole mesh
};

// A mesh of the ranks that differ from `rank` only in the given axes. The axes keep their order. Ranks are indices in
// the mesh.
struct Submesh {
  MeshShape shape;
  std::vector<int> ranks;
};
Submesh SubmeshOf(const MeshShape& mesh, std::span<const std::string> axes, int rank);

// Returns the Runtime with which this rank runs local ops on a device of the mesh. The context and the mesh must
// outlive it.
Runtime RuntimeOf(const Context& context, DeviceMesh& mesh, DeviceKind device = DeviceKind::kCpu);

}  // namespace weft
