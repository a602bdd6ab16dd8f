// Eager: runs each node as it is built, with the same sharding rules (Partitioner). A Var then also holds its value.
//
//   EagerBuilder eager(runtime, bind);
//   BuilderScope scope(eager);
//   Var y = Exp(eager.FromLocal(local, {8, 4}, Sharding({Shard(0)})));
//   Tensor mine = eager.ToLocal(y, Sharding({Replicate()}));
#pragma once
#include "weft/core/compile/runtime.h"
#include "weft/core/ir/builder.h"
#include "weft/core/transforms/partitioner.h"

namespace weft {

// For a local node, its tensor; for a global node, its placements.
struct EagerValue {
  Tensor tensor;
  Placed placed;
};

class EagerBuilder : public Builder, private Partitioner {
 public:
  EagerBuilder(const Runtime& runtime, Binder bind, BuilderOptions options = {});

  // Returns a global value made from this rank's chunk (capacity-shaped). With requires_grad, Grad can differentiate
  // with respect to it. Throws Error if the chunk does not fit the placement.
  Var FromLocal(Tensor local, const Shape& global, const Sharding& sharding, bool requires_grad = false);
  // Returns this rank's chunk of the value in the wanted placement. Runs the collectives that this needs.
  Tensor ToLocal(const Var& value, const Sharding& want);
  // Returns the placement that the rules gave the value.
  const Sharding& ShardingOf(const Var& value) { return At(value).sharding; }
  // Stores the value into a bound entry, in the entry's placement. Takes effect at once. Throws Error if sizes differ.
  void Write(const std::string& entry, const Var& value, const Sharding& stored);
  using Partitioner::Resolve;
  double ItemOf(const Var& value, const Loc& loc) override;
  Var Constant(const Tensor& tensor, const Loc& loc) override;

 protected:
  void Accept(const std::shared_ptr<Node>& node) override;
  Placed& At(const Var& global) override;
  std::shared_ptr<Node> EmitLocal(Op op, Attrs attrs, std::span<const Var> inputs,
                                  absl::InlinedVector<ValueInfo, 1> outputs, const Node& origin) override;

 private:
  std::shared_ptr<Node> LocalNode(Op op, Attrs attrs, absl::InlinedVector<ValueInfo, 1> outputs) const;
  void RunKernel(Node& node, std::span<const Var> inputs);

  Runtime runtime_;
  Binder bind_;
};

}  // namespace weft
