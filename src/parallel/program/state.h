// State: the named global tensors of a run (parameters, moments, copies, accumulators, slots), each with its placement.
// It exists outside programs, which read and write its entries by name.
//
//   State state(mesh);  // on the ranks of a DeviceMesh and the default device
//   state.Add("w", DType::kF32, {8, 4}, Sharding({Shard(0)}), /*saved=*/true);
//   auto step = Compile([&](Var x) { state.Write("w", state.Read("w") + x); return SumAll(x); }, state);
#pragma once
#include <map>
#include <memory>
#include <string>

#include "weft/core/compile/runtime.h"
#include "weft/parallel/dtensor/dtensor.h"
#include "weft/parallel/nn/module.h"

namespace weft {

class OptimizerStep;

// The options under which the modules of a State are built.
struct StateOptions {
  ShardingPlan plan{};
  Precision precision{};
  Fsdp fsdp = Fsdp::kNone;
  bool regather = true;
  bool copies = false;  // of parameters, in the types in which they are used (ModelScope::Options)
  uint64_t seed = 0;    // of initial weights and of random ops
};

class State {
 public:
  struct Entry {
    Shape global;
    Sharding sharding;
    Tensor local;        // this rank's chunk; its storage never moves while the State exists
    bool saved = false;  // part of a checkpoint
  };

  // Creates an empty State on the default device. The mesh and its context must outlive it. Throws Error if this rank
  // is not in the mesh or does not have the device.
  explicit State(DeviceMesh& mesh, const StateOptions& options = {}, Loc loc = Loc::current());
  // Creates an empty State for one rank of a mesh without process groups. The device must outlive it.
  State(MeshShape mesh, Coords coords, DeviceRuntime& device = CpuRuntime());
  ~State();
  State(State&&) noexcept;

  // Adds an entry of zeros. An empty sharding means Replicate. Throws Error if the name exists.
  Entry& Add(const std::string& name, DType dtype, const Shape& global, const Sharding& sharding, bool saved,
             Loc loc = Loc::current());
  // AddTogether adds entries of zeros in one buffer, so that one copy fills them all. They are not saved.
  struct NewEntry {
    std::string name;
    DType dtype;
    Shape global;
    Sharding sharding;
  };
  static constexpr size_t kTogether = 64;  // alignment of each entry, in bytes
  void AddTogether(std::span<const NewEntry> entries, Loc loc = Loc::current());
  bool Has(const std::string& name) const { return entries_->contains(name); }
  Entry& At(const std::string& name, Loc loc = Loc::current());  // throws Error for an unknown name
  const std::map<std::string, Entry>& entries() const { return *entries_; }
  const MeshShape& mesh() const { return model_.mesh; }
  const Coords& coords() const { return coords_; }
  // Returns a view of the box of an entry that this rank holds.
  TensorView View(const std::string& name);
  // Waits for the device unless it is the CPU. Throws Error if the entry has more than one element.
  void SetScalar(const std::string& name, double value);
  // The entry of a State on a DeviceMesh with the number of the next call, or StateScope, that draws random numbers, so
  // that each draws others, also after the State was saved and loaded.
  static constexpr const char* kCalls = "random.calls";
  int64_t calls();
  void CountCall();  // after a call that has drawn
  DeviceRuntime& device() const { return *device_; }
  Binder binder() const;

  // Read returns the value of an entry, and Write gives it a new one. A Read after a Write returns the new value. Call
  // them in a function that is compiled or run over this State, or under a StateScope. They throw Error elsewhere and
  // for an unknown name; Write also throws Error for another dtype or shape.
  Var Read(const std::string& name, Loc loc = Loc::current());
  void Write(const std::string& name, const Var& value, Loc loc = Loc::current());
  // Returns a copy of the value of an entry. Throws Error unless the State was created on a DeviceMesh, as session()
  // and runtime() do.
  DTensor Value(const std::string& name, Loc loc = Loc::current());

  const std::shared_ptr<EagerSession>& session() const;  // shared by the DTensors of this State
  Runtime runtime() const;
  const ModelScope::Options& model() const { return model_; }
  uint64_t seed() const { return seed_; }
  // Returns the optimizer, which updates the parameters. Throws Error unless Init (parallel/step/init.h) made the
  // State.
  OptimizerStep& optimizer() const;
  void set_optimizer(std::shared_ptr<OptimizerStep> optimizer) { optimizer_ = std::move(optimizer); }

 private:
  using Entries = std::map<std::string, Entry>;
  void CheckNew(const std::string& name, const Loc& loc) const;
  void CheckOnMesh(const char* what) const;

  ModelScope::Options model_;
  Coords coords_;
  DeviceRuntime* device_;
  uint64_t seed_ = 0;
  std::shared_ptr<Entries> entries_ = std::make_shared<Entries>();  // binders share it, so that a State can be moved
  std::shared_ptr<EagerSession> session_;                           // null: a mesh without process groups
  std::shared_ptr<OptimizerStep> optimizer_;
};

// While alive, ops of this thread run one by one on the tensors of the State. They have the same effect as in a
// function that is compiled over the State.
class StateScope {
 public:
  explicit StateScope(State& state, Loc loc = Loc::current());
  ~StateScope();
  StateScope(const StateScope&) = delete;
  StateScope& operator=(const StateScope&) = delete;

 private:
  struct Scopes;
  State& state_;
  std::unique_ptr<Scopes> scopes_;
};

}  // namespace weft
