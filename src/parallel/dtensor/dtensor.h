// DTensor: storage with global meaning. Each rank of a device mesh holds a chunk, and the placements, one per mesh
// axis, say which: PyTorch's DTensor, over the eager builder. Ops exist on Var only; a DTensor converts to it and back.
//
//   EagerScope eager(context, mesh);
//   DTensor w = DistributeTensor(full_w, mesh, {Replicate(), Shard(1)}, {.requires_grad = true});
//   DTensor x = DistributeTensor(full_x, mesh, {Shard(0), Replicate()});
//   Var y = Relu(Einsum("bi,io->bo", x, w));
//   DTensor dw = DTensor::Of(Grad(SumAll(y * y), {w})[0]);      // placed as w is
//   Tensor full = dw.FullTensor();
//
// Functions that communicate are called by all ranks, in the same order. Values never change: tensors that share
// storage with a DTensor are to be read, or cloned before they are written.
#pragma once
#include <memory>
#include <string>

#include "weft/parallel/dtensor/eager_scope.h"
#include "weft/parallel/dtensor/placements.h"

namespace weft {

struct FromLocalOptions {
  bool requires_grad = false;
};

class DTensor {
 public:
  DTensor() = default;  // empty: only assigned to

  // From the elements that this rank really holds: the last ranks of an uneven dim less than the others, or nothing.
  // Chunks are of ceil(n / ranks) (core/base/shard.h). Replicas must be equal, Partial terms reduce to the value;
  // neither is checked. Takes the storage of `local` where nothing is to be padded. No communication.
  static DTensor FromLocal(const Tensor& local, DeviceMesh& mesh, const Placements& placements, const Shape& global,
                           const FromLocalOptions& options = {}, Loc loc = Loc::current());
  // From a result of eager ops, in the placement that the rules gave it. It keeps its history: Grad reaches through it.
  static DTensor Of(const Var& value, Loc loc = Loc::current());

  explicit operator bool() const { return session_ != nullptr; }
  const Shape& shape() const { return var_.shape(); }  // global
  DType dtype() const { return var_.dtype(); }
  DeviceMesh& mesh() const { return session_->mesh(); }
  const Sharding& placements() const;  // an axis of one rank is Replicate
  bool requires_grad() const { return var_.node().requires_grad; }

  // The elements that this rank really holds; on Partial axes its term. Shares storage where that has no padding.
  Tensor ToLocal(Loc loc = Loc::current()) const;
  // The whole value, on every rank.
  Tensor FullTensor(Loc loc = Loc::current()) const;
  // The same value placed otherwise, by the steps of PlanTransitions (core/transforms/rules.h); axes marked Keep()
  // stay. Differentiable. One kind of Partial never becomes another: that is an Error.
  DTensor Redistribute(const Placements& placements, Loc loc = Loc::current()) const;
  // The same storage without history: what an updated parameter needs, or each step would keep the one before alive.
  DTensor Detach(const FromLocalOptions& options = {}, Loc loc = Loc::current()) const;

  // For ops. Throws Error where the current builder is not the one that can reach this value.
  operator Var() const;

 private:
  friend DTensor FromStorage(std::shared_ptr<EagerSession> session, Tensor storage, const Shape& global,
                             const Sharding& sharding, const FromLocalOptions& options, const Site& site);
  friend DTensor Redistribute(const DTensor& x, DeviceMesh& from, DeviceMesh& to, const Placements& placements,
                              ProcessGroup& group, Loc loc);
  DTensor(std::shared_ptr<EagerSession> session, Var var) : session_(std::move(session)), var_(std::move(var)) {}
  void CheckDefined(const Site& site) const;
  Tensor Storage() const;  // padded

  std::shared_ptr<EagerSession> session_;
  Var var_;
};
std::string ToString(const DTensor& tensor);  // "f32 [4, 6] (S(0), R) on dp=2 x tp=2"

struct DistributeOptions {
  bool requires_grad = false;
  static constexpr int kOwn = -1;
  int source = 0;  // the rank whose values all get; kOwn: each rank cuts its own, which must be equal; no communication
};
// Cuts a tensor. Every rank passes one of the same shape and dtype, and rank 0's values are broadcast (the semantics of
// PyTorch's distribute_tensor), so ranks that read or drew other values still agree. The argument is copied.
DTensor DistributeTensor(const Tensor& full, DeviceMesh& mesh, const Placements& placements,
                         const DistributeOptions& options = {}, Loc loc = Loc::current());

// The whole value of an eager result, on every rank: DTensor::Of(value).FullTensor().
Tensor ValueOf(const Var& value, Loc loc = Loc::current());

// From storage that is padded already (ChunkShape). What the other makers end in.
DTensor FromStorage(std::shared_ptr<EagerSession> session, Tensor storage, const Shape& global,
                    const Sharding& sharding, const FromLocalOptions& options, const Site& site);

}  // namespace weft
