// Builder: where ops go. The current one of the thread traces them into a Graph or runs them (the eager builder).
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

  // Checks the operands by the op's record and makes the node. The only way to make one.
  Outputs Emit(Op op, Attrs attrs, std::span<const Var> inputs, const Loc& loc);

  const BuilderOptions& options() const { return options_; }
  // The key of the next random op of the current module path.
  uint64_t NextRandomKey();
  // The ordinals of random ops start again: called at each call of the outermost step function.
  void RestartRandom() { random_ops_.clear(); }
  // The scalars that random ops depend on (i64): the step, and the global row at which the micro-batch starts.
  Var step, first_row;

 protected:
  virtual void Accept(const std::shared_ptr<Node>& node) = 0;  // stores it, or runs it

 private:
  friend class ModuleScope;
  friend class OriginScope;
  BuilderOptions options_;
  std::map<std::string, uint64_t> random_ops_;
  std::shared_ptr<const std::string> scope_ = std::make_shared<const std::string>();
  Phase phase_ = Phase::kForward;
  const Node* origin_ = nullptr;  // nodes are made on behalf of this one
  int64_t next_id_ = 0;
};

class TraceBuilder : public Builder {
 public:
  using Builder::Builder;
  // The traced graph, with these results. The builder is empty afterwards.
  Graph Finish(std::vector<NamedValue> outputs, std::vector<NamedValue> writes = {});
  const std::vector<std::shared_ptr<Node>>& nodes() const { return nodes_; }

 protected:
  void Accept(const std::shared_ptr<Node>& node) override { nodes_.push_back(node); }

 private:
  std::vector<std::shared_ptr<Node>> nodes_;
};

// The builder of this thread; throws Error where there is none.
Builder& CurrentBuilder();
bool HasBuilder();

// Makes a builder current while alive. Scopes nest.
class BuilderScope {
 public:
  explicit BuilderScope(Builder& builder);
  ~BuilderScope();
  BuilderScope(const BuilderScope&) = delete;
  BuilderScope& operator=(const BuilderScope&) = delete;

 private:
  Builder* previous_;
};

// Nodes made while alive carry the module path "outer.name".
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

// Nodes made while alive carry the scope and line of `origin` (when not null) and this phase.
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

// Shorthands for the op families' files.
Outputs Emit(Op op, Attrs attrs, std::initializer_list<Var> inputs, const Loc& loc);
Var EmitOne(Op op, Attrs attrs, std::initializer_list<Var> inputs, const Loc& loc);

}  // namespace weft
