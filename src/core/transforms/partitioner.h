// Partitioner: places global nodes, one after the other, and makes the local nodes that compute them.
//
// Placements flow forward from the leaves through the rules (rules.h), without a search. Partition (partition.h) and
// eager DTensor share it: only where local values are stored and how local ops are made differs (At and EmitLocal).
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"
#include "weft/core/ir/graph.h"
#include "weft/core/transforms/rules.h"

namespace weft {

class KernelTable;

// Where a global value is: its placement, and its local versions by placement. A lazy value comes from a generator, or
// from ops on lazy values only. It has no version until a consumer needs one.
struct Placed {
  struct Version {
    Sharding sharding;
    Phase phase;
    Var local;
  };
  Sharding sharding;
  bool lazy = false;
  int lazy_depth = 0;     // length of the chain of lazy values that it is computed from
  Var source;             // for a lazy reshard, the value before all reshards stacked on it
  bool regather = false;  // gathered again in each phase (fsdp: full), so it need not live from forward to backward
  absl::InlinedVector<Version, 1> versions;
};

struct PartitionOptions {
  MeshShape mesh;
  // Explicit mode: throws Error where a collective would be inserted that neither a reshard asks for nor an op's own
  // composition. The backward pass is not checked, because its placements follow from the forward pass.
  bool check = false;
  const OpTable* ops = nullptr;          // null: Ops(); tests pass broken rules
  const KernelTable* kernels = nullptr;  // ops without a row here become their compositions; null: all ops have one
  std::map<std::string, Sharding>
      wanted{};          // placements of outputs (default: Replicate) and writes (default: as stored)
  bool natural = false;  // outputs not in `wanted` keep the placement that the rules gave them
  // A reduce_scatter of bf16 exchanges its terms and adds them in f32 (core/ir/wire.h), so that copy engines can move
  // them. The sums are rounded once.
  bool exchange_terms = false;
};

class Partitioner {
 public:
  explicit Partitioner(const PartitionOptions& options);
  virtual ~Partitioner() = default;

  // Places the results of a global node. Its operands must have been processed before.
  void Process(const std::shared_ptr<Node>& node);
  // Materialize returns the local value of `global` in the wanted placement. Conversions are inserted on behalf of
  // `origin`. An incomplete sum over ranks may have a wider type (see WidensSum). Whole always returns the value's own
  // type.
  Var Materialize(const Var& global, const Sharding& want, const Node& origin);
  Var Whole(const Var& global, const Sharding& want, const Node& origin);
  // Returns `target` with Keep() replaced by the placement in `have`. Axes with one rank become Replicate.
  Sharding Resolve(const Sharding& target, const Sharding& have) const;

  virtual Placed& At(const Var& global) = 0;

 protected:
  // Makes a local op. In eager mode it also runs it.
  virtual std::shared_ptr<Node> EmitLocal(Op op, Attrs attrs, std::span<const Var> inputs,
                                          absl::InlinedVector<ValueInfo, 1> outputs, const Node& origin) = 0;
  const MeshShape& mesh() const { return options_.mesh; }
  const OpRecord& RecordOf(Op op) const { return (options_.ops ? *options_.ops : Ops())[size_t(op)]; }
  virtual void OnFallback(const Node&) {}
  // While alive, collectives count as asked for: they are made for an op or value that asks for them.
  struct Asked {
    explicit Asked(Partitioner& p) : partitioner(p) { partitioner.asked_++; }
    ~Asked() { partitioner.asked_--; }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;
    Partitioner& partitioner;
  };

 private:
  void ProcessReshard(const std::shared_ptr<Node>& node);
  void ProcessOp(const std::shared_ptr<Node>& node);
  bool WidenShares(const Node& node, absl::InlinedVector<Var, 3>& inputs);
  void ProcessFallback(const std::shared_ptr<Node>& node);
  Var MaterializeLazy(const Var& global, const Sharding& want, const Node& origin);
  std::optional<DType> WireFor(const Transition& transition, const Node& origin, DType terms) const;
  Var Convert(Var local, const Sharding& have, const Sharding& want, const Node& origin, const Var& global);
  Var AsType(Var local, DType dtype, const Node& origin);
  Var EmitFrom(const Node& global, std::span<const Var> inputs, const Sharding& sharding, const Node& origin);
  ValueInfo LocalInfo(const ValueInfo& global, const Sharding& sharding) const;
  Var ShapeOnly(const Var& global, const Sharding& sharding, const Node& origin);
  void Place(const Var& global, const Sharding& sharding, Var local, const Node& origin);

  bool Refuses(const Node& origin) const;

  PartitionOptions options_;
  int asked_ = 0;
};

}  // namespace weft
