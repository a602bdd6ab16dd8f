// Builder: receives the ops that code emits. The thread's current builder traces them into a Graph (TraceBuilder) or
// runs them (EagerBuilder).
//
//   TraceBuilder trace({.seed = 7});
//   BuilderScope scope(trace);
//   Var y = Exp(Leaf("x", DType::kF32, {4}));
//   Graph graph = trace.Finish({{"y", y}});
#pragma once
#include <map>
#include <span>

#include "weft/core/base/rng.h"
#include "weft/core/ir/graph.h"
#include "weft/core/ir/record.h"

namespace weft {

struct BuilderOptions {
  uint64_t seed = 0;
  RandomPhase random_phase = RandomPhase::kTrain;
};

class Builder {
 public:
  explicit Builder(BuilderOptions options = {}) : options_(options) {}
  virtual ~Builder() = default;
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // Checks the operands with the op's record, makes the node and passes it to Accept. Every op builder ends here.
  // Throws Error for bad operands.
  Outputs Emit(Op op, Attrs attrs, std::span<const Var> inputs, const Loc& loc);

  // The value of a tensor of one element, and a constant made from one. Throw Error unless ops run as they are built.
  virtual double ItemOf(const Var& value, const Loc& loc);
  virtual Var Constant(const Tensor& tensor, const Loc& loc);

  const BuilderOptions& options() const { return options_; }
  // Returns the key for the next random op of the current module path.
  uint64_t NextRandomKey();
  // Restarts the ordinals of random ops. Called at each call of the outermost step function.
  void RestartRandom() { random_ops_.clear(); }
  // Whether a random op was built since.
  bool HasDrawn() const { return !random_ops_.empty(); }
  // The i64 scalars that random ops depend on: the step, and the global row at which the micro-batch starts.
  Var step, first_row;

 protected:
  virtual void Accept(const std::shared_ptr<Node>& node) = 0;  // stores the node or runs it

 private:
  friend class ModuleScope;
  friend class OriginScope;
  friend class LineScope;
  BuilderOptions options_;
  std::map<std::string, uint64_t> random_ops_;
  std::shared_ptr<const std::string> scope_ = std::make_shared<const std::string>();
  Phase phase_ = Phase::kForward;
  const Node* origin_ = nullptr;  // the node on whose behalf nodes are made
  const Loc* line_ = nullptr;     // the line of the composition that makes nodes
  int64_t next_id_ = 0;
};

class TraceBuilder : public Builder {
 public:
  using Builder::Builder;
  // Throws Error, from now on, where an op takes a value of an eager program: the trace would keep what one call saw.
  void RefuseEagerValues() { refuses_eager_ = true; }
  // Returns the traced graph with these outputs and writes. The builder is empty afterwards.
  Graph Finish(std::vector<NamedValue> outputs, std::vector<NamedValue> writes = {});
  const std::vector<std::shared_ptr<Node>>& nodes() const { return nodes_; }

 protected:
  void Accept(const std::shared_ptr<Node>& node) override;

 private:
  std::vector<std::shared_ptr<Node>> nodes_;
  bool refuses_eager_ = false;
};

// Returns the builder of this thread. Throws Error if there is none.
Builder& CurrentBuilder();
bool HasBuilder();

// Makes a builder the current one while alive. Scopes nest.
class BuilderScope {
 public:
  explicit BuilderScope(Builder& builder);
  ~BuilderScope();
  BuilderScope(const BuilderScope&) = delete;
  BuilderScope& operator=(const BuilderScope&) = delete;

 private:
  Builder* previous_;
};

// While alive, nodes get the module path "outer.name".
class ModuleScope {
 public:
  explicit ModuleScope(const std::string& name);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  Builder& builder_;
  std::shared_ptr<const std::string> previous_;
};

// While alive, nodes get this phase, and the scope and line of `origin` unless it is null.
class OriginScope {
 public:
  OriginScope(Phase phase, const Node* origin);
  ~OriginScope();
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;

 private:
  Builder& builder_;
  Phase previous_phase_;
  const Node* previous_origin_;
  std::shared_ptr<const std::string> previous_scope_;
};

// While alive, nodes get this line, so that errors in a composition name its caller. The outermost scope counts. An
// OriginScope wins.
class LineScope {
 public:
  explicit LineScope(const Loc& loc);
  ~LineScope();
  LineScope(const LineScope&) = delete;
  LineScope& operator=(const LineScope&) = delete;

 private:
  Builder& builder_;
  const Loc* previous_;
  Loc loc_;
};

// Emit into the current builder. EmitOne returns the op's first output.
Outputs Emit(Op op, Attrs attrs, std::initializer_list<Var> inputs, const Loc& loc);
Var EmitOne(Op op, Attrs attrs, std::initializer_list<Var> inputs, const Loc& loc);

}  // namespace weft
