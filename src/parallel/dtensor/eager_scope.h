// EagerScope: while it is open, ops run eagerly on the tensors of one device mesh. They run on the device that was the
// default device when the scope was opened.
//
//   DeviceMesh mesh(context, groups, {{"dp", "tp"}, {2, 2}});
//   EagerScope eager(context, mesh, {.seed = 7});
//   DTensor x = Randn({8, 4}, mesh, {Shard(0), Replicate()});
//
//   DefaultDeviceScope gpu(context.device(DeviceKind::kCuda).device());
//   EagerScope on_gpus(context, mesh);                  // the mesh must also have groups of this kind of device
//   DTensor y = DistributeTensor(host, mesh, {Shard(0), Replicate()});
#pragma once
#include <memory>

#include "weft/core/compile/eager.h"
#include "weft/core/ir/builder.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/dtensor/placements.h"

namespace weft {

// The object that a scope shares with the tensors created in it. It lives as long as any of them. Context and mesh must
// outlive it.
class EagerSession {
 public:
  // Opens a session on the default device. `bind` returns the storage of named leaves; with an empty `bind` a named
  // leaf throws Error. Throws Error if this rank is not in the mesh or does not have the device.
  static std::shared_ptr<EagerSession> Open(DeviceMesh& mesh, BuilderOptions options, Binder bind, const Site& site);
  EagerSession(const Context& context, DeviceMesh& mesh, DeviceKind device, BuilderOptions options, Binder bind);

  DeviceMesh& mesh() const { return *mesh_; }
  DeviceRuntime& memory() const { return *memory_; }  // the runtime of device()
  Device device() const { return memory_->device(); }
  EagerBuilder& builder() { return builder_; }
  // Returns the checked placements of a new tensor. An axis with one rank becomes Replicate. Throws Error as
  // Placements::Check does, and for two kinds of Partial.
  Sharding Place(const Placements& placements, const Shape& shape, const Site& site);

 private:
  DeviceMesh* mesh_;
  DeviceRuntime* memory_;
  EagerBuilder builder_;
};

// While alive, ops of this thread run on this mesh. Scopes nest.
class EagerScope {
 public:
  // `options` seeds random ops, and the factories that get no seed. Throws Error if this rank is not in the mesh or
  // does not have the default device.
  explicit EagerScope(DeviceMesh& mesh, BuilderOptions options = {}, Loc loc = Loc::current());
  // As above, and throws Error if the mesh was made with another context.
  EagerScope(const Context& context, DeviceMesh& mesh, BuilderOptions options = {}, Loc loc = Loc::current());
  // Reopens a session.
  EagerScope(std::shared_ptr<EagerSession> session, Loc loc);
  ~EagerScope();
  EagerScope(const EagerScope&) = delete;
  EagerScope& operator=(const EagerScope&) = delete;

  // Makes later random ops (dropout) draw the numbers of this step, for global rows from `first_row` on. A new scope
  // begins with step 0 and row 0.
  void BeginStep(int64_t step, int64_t first_row = 0);

  EagerBuilder& builder() { return session_->builder(); }
  const std::shared_ptr<EagerSession>& session() const { return session_; }

  static EagerScope* Current();  // the innermost scope of this thread, or null
  // Returns the session of the innermost scope. Throws Error if no scope is open or if the scope is of another mesh.
  static const std::shared_ptr<EagerSession>& Need(const DeviceMesh& mesh, const Site& site);

 private:
  std::shared_ptr<EagerSession> session_;
  BuilderScope scope_;
  EagerScope* outer_;
};

}  // namespace weft
