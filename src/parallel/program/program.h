// Program: a C++ function over arguments and entries of a State, traced and lowered for a mesh.
//
//   Program program([](std::span<const Var> x) -> std::vector<NamedValue> { return {{"y", Exp(x[0])}}; },
//                   {.name = "exp", .partition = {.mesh = mesh}}, arguments);
//
// All ranks must construct it in the same way. It allocates no tensors, so `weft plan` makes programs without a device.
// A Function (function.h) binds it to a State and runs it.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/compile/eager.h"
#include "weft/core/passes/recompute_options.h"
#include "weft/core/transforms/partition.h"
#include "weft/parallel/nn/module.h"
#include "weft/parallel/program/state.h"

namespace weft {

struct ProgramOptions {
  std::string name{};            // in messages and in the dumps of WEFT_DUMP; empty: no dumps
  BuilderOptions random{};       // seed and phase of random ops
  ModelScope::Options model{};   // the sharding plan and the dtypes of modules that the function calls
  PartitionOptions partition{};  // the mesh, and the placements of results, which are Replicate by default
  RecomputeOptions recompute{};  // what compiled programs compute again in the backward pass
  bool traced = true;            // false: only RunEagerly can be used, and the body may branch on values
};

class Program {
 public:
  using Body = std::function<std::vector<NamedValue>(std::span<const Var> arguments)>;

  // Traces the body with arguments of these dtypes, global shapes and shardings. Everything that the body refers to
  // must outlive the program. Throws the errors of the body, Grad and Partition.
  Program(Body body, ProgramOptions options, std::vector<ValueInfo> arguments = {});

  const ProgramOptions& options() const { return options_; }
  const std::vector<ValueInfo>& arguments() const { return arguments_; }
  const LocalProgram& local() const { return local_; }     // the program that each rank runs
  size_t global_nodes() const { return global_nodes_; }    // of the traced graph
  double product_flops() const { return product_flops_; }  // FLOPs of products and attention, on all ranks
  static std::string ArgumentName(size_t i);               // the name of the argument's leaf

  // Runs the body op by op on values of `eager`. Writes to entries take effect at once.
  std::vector<NamedValue> RunEagerly(EagerBuilder& eager, State& state, std::span<const Var> arguments) const;

 private:
  Body body_;
  ProgramOptions options_;
  std::vector<ValueInfo> arguments_;
  LocalProgram local_;
  size_t global_nodes_ = 0;
  double product_flops_ = 0;
};

// EntryScope: receives the writes of a function's body while the body is traced or run. Thread-local; the innermost
// scope applies.
class EntryScope {
 public:
  EntryScope();                                   // while the body is traced: collects the writes
  EntryScope(EagerBuilder& eager, State& state);  // while the body runs: stores them
  ~EntryScope();
  EntryScope(const EntryScope&) = delete;
  EntryScope& operator=(const EntryScope&) = delete;
  static EntryScope* Current();  // null if no function is being traced or run

  void Write(const std::string& entry, const Var& value);
  // Returns the value that the traced body has written to the entry, or an undefined Var.
  Var Written(const std::string& entry) const;
  State* state() const { return state_; }  // null while the body is traced
  std::vector<NamedValue> TakeWrites();

 private:
  EagerBuilder* eager_ = nullptr;
  State* state_ = nullptr;
  std::vector<NamedValue> writes_;                     // in the order of the first write of each entry
  absl::flat_hash_map<std::string, size_t> place_of_;  // in writes_
  EntryScope* outer_;
};

// Gives an entry of the State a new value, in the placement in which the entry is stored. Later reads in the body
// return the new value. Throws Error outside a function over a State.
void WriteEntry(const std::string& entry, const Var& value, Loc loc = Loc::current());

}  // namespace weft
