// DTensor: a global tensor distributed over a device mesh, as in PyTorch. Each rank holds one chunk. The placements,
// one per mesh axis, determine which chunk it is. DTensors live on the eager builder. Ops take and return Var. A
// DTensor converts to a Var implicitly, and DTensor::Of converts back.
//
//   EagerScope eager(mesh);
//   DTensor w = DistributeTensor(full_w, mesh, {Replicate(), Shard(1)}, {.requires_grad = true});
//   DTensor x = DistributeTensor(full_x, mesh, {Shard(0), Replicate()});
//   Var y = Relu(Einsum("bi,io->bo", x, w));
//   DTensor dw = DTensor::Of(Grad(SumAll(y * y), {w})[0]);      // has the placements of w
//   Tensor full = dw.FullTensor();
//
// All ranks must call functions that communicate, in the same order. The value of a DTensor never changes. Tensors that
// share its storage must not be written; clone them first.
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
  DTensor() = default;  // empty; can only be assigned to

  // Creates a DTensor from the elements that this rank holds, without padding. A chunk has ceil(n / ranks) elements of
  // a sharded dim (core/base/shard.h), so the last ranks of an uneven dim hold fewer elements, or none. Replicas must
  // be equal, and Partial terms must reduce to the value. Neither is checked. Shares the storage of `local` if that
  // needs no padding and is on the scope's device. Does not communicate. Throws Error if `local` does not have the
  // shape that this rank holds.
  static DTensor FromLocal(const Tensor& local, DeviceMesh& mesh, const Placements& placements, const Shape& global,
                           const FromLocalOptions& options = {}, Loc loc = Loc::current());
  // Returns a DTensor of a result of eager ops, with the placements that the sharding rules gave it. It keeps its
  // history, so Grad can differentiate through it. Throws Error if the value is traced or if no EagerScope is open.
  static DTensor Of(const Var& value, Loc loc = Loc::current());

  explicit operator bool() const { return session_ != nullptr; }
  // These throw Error if the DTensor is empty.
  const Shape& shape(Loc loc = Loc::current()) const;  // global
  DType dtype(Loc loc = Loc::current()) const;
  DeviceMesh& mesh(Loc loc = Loc::current()) const;
  const Sharding& placements(Loc loc = Loc::current()) const;  // an axis with one rank is Replicate
  bool requires_grad(Loc loc = Loc::current()) const;

  // Returns the elements that this rank holds, without padding. On Partial axes it returns this rank's term. Shares
  // storage if the chunk has no padding.
  Tensor ToLocal(Loc loc = Loc::current()) const;
  // Returns this rank's chunk, padded to the capacity of its placement, as compiled functions take it. Shares storage.
  Tensor Storage(Loc loc = Loc::current()) const;
  // Returns the whole value, on every rank.
  Tensor FullTensor(Loc loc = Loc::current()) const;
  // Returns the same value in other placements, converted by the steps of PlanTransitions (core/transforms/rules.h).
  // Axes marked Keep() stay as they are. Differentiable. Throws Error if a Partial would have to become a Partial of
  // another kind.
  DTensor Redistribute(const Placements& placements, Loc loc = Loc::current()) const;
  // Returns the value of a tensor with one element, on every rank. Communicates unless the tensor is replicated. Throws
  // Error if the tensor has more than one element.
  double Item(Loc loc = Loc::current()) const;
  // Returns a DTensor with the same storage and no history. Updated parameters need this, because otherwise each step
  // would keep the previous one alive.
  DTensor Detach(const FromLocalOptions& options = {}, Loc loc = Loc::current()) const;

  // Lets ops take a DTensor. Throws Error if ops are being traced or run under another EagerScope. A leaf may also be
  // used under another EagerScope of the same mesh and device.
  operator Var() const;

 private:
  friend DTensor FromStorage(std::shared_ptr<EagerSession> session, Tensor storage, const Shape& global,
                             const Sharding& sharding, const FromLocalOptions& options, const Site& site);
  friend DTensor Redistribute(const DTensor& x, DeviceMesh& from, DeviceMesh& to, const Placements& placements,
                              ProcessGroup& group, Loc loc);
  DTensor(std::shared_ptr<EagerSession> session, Var var) : session_(std::move(session)), var_(std::move(var)) {}
  void CheckDefined(const Site& site) const;

  std::shared_ptr<EagerSession> session_;
  Var var_;
};
std::string ToString(const DTensor& tensor);  // "f32 [4, 6] (S(0), R) on dp=2 x tp=2"

struct DistributeOptions {
  bool requires_grad = false;
  static constexpr int kOwn = -1;
  // The rank of the mesh whose values all ranks get. With kOwn each rank uses its own values, which must be equal, and
  // nothing is communicated.
  int source = 0;
};
// Shards a tensor over a mesh. Every rank must pass a tensor of the same shape, dtype and kind of device. The values of
// rank options.source are broadcast, as in PyTorch's distribute_tensor, so ranks that read or drew different values
// still agree. Copies the tensor to the device of the open EagerScope. The broadcast uses the group of the tensor's own
// device. Throws Error if tensors differ between ranks, or if no EagerScope of the mesh is open.
DTensor DistributeTensor(const Tensor& full, DeviceMesh& mesh, const Placements& placements,
                         const DistributeOptions& options = {}, Loc loc = Loc::current());

// Returns the whole value of an eager result, on every rank, as DTensor::Of(value).FullTensor() does.
Tensor ValueOf(const Var& value, Loc loc = Loc::current());

// Creates a DTensor from storage that is already padded (ChunkShape). All functions that create DTensors from tensors
// end here. Throws Error if options.requires_grad is set and the dtype is not floating.
DTensor FromStorage(std::shared_ptr<EagerSession> session, Tensor storage, const Shape& global,
                    const Sharding& sharding, const FromLocalOptions& options, const Site& site);

}  // namespace weft
