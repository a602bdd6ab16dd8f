// EagerScope: ops run as they are written, on the tensors of one device mesh.
//
//   DeviceMesh mesh(context, groups, {{"dp", "tp"}, {2, 2}});
//   EagerScope eager(context, mesh, {.seed = 7});
//   DTensor x = Randn({8, 4}, mesh, {Shard(0), Replicate()});
#pragma once
#include <memory>

#include "weft/core/compile/eager.h"
#include "weft/core/ir/builder.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/dtensor/placements.h"

namespace weft {

// What a scope and the tensors made in it share. It lives as long as one of them; the context and the mesh must live
// longer.
class EagerSession {
 public:
  EagerSession(const Context& context, DeviceMesh& mesh, BuilderOptions options);

  DeviceMesh& mesh() const { return *mesh_; }
  EagerBuilder& builder() { return builder_; }
  // The checked placements of a new tensor. An axis of one rank places nothing: there it is Replicate.
  Sharding Place(const Placements& placements, const Shape& shape, const Site& site);

 private:
  DeviceMesh* mesh_;
  EagerBuilder builder_;
};

// While alive, ops of this thread run on this mesh. Scopes nest.
class EagerScope {
 public:
  // The options seed random ops and factories that get no seed of their own.
  EagerScope(const Context& context, DeviceMesh& mesh, BuilderOptions options = {}, Loc loc = Loc::current());
  ~EagerScope();
  EagerScope(const EagerScope&) = delete;
  EagerScope& operator=(const EagerScope&) = delete;

  // Random ops (dropout) after this draw the numbers of this step, of rows counted from `first_row`. It is 0, 0 at
  // first.
  void BeginStep(int64_t step, int64_t first_row = 0);

  EagerBuilder& builder() { return session_->builder(); }
  const std::shared_ptr<EagerSession>& session() const { return session_; }

  static EagerScope* Current();  // the innermost of this thread, or null
  // The session of the innermost scope; throws Error where there is none or it is of another mesh.
  static const std::shared_ptr<EagerSession>& Need(const DeviceMesh& mesh, const Site& site);

 private:
  std::shared_ptr<EagerSession> session_;
  BuilderScope scope_;
  EagerScope* outer_;
};

}  // namespace weft
