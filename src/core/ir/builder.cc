#include "weft/core/ir/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/ir/checks.h"
#include "weft/core/ir/verify.h"

namespace weft {
namespace {
thread_local Builder* current = nullptr;
}  // namespace

Builder& CurrentBuilder() {
  WEFT_CHECK(current, "ops need a builder: open a BuilderScope of a TraceBuilder, or an EagerScope");
  return *current;
}
bool HasBuilder() { return current != nullptr; }

BuilderScope::BuilderScope(Builder& builder) : previous_(current) { current = &builder; }
BuilderScope::~BuilderScope() { current = previous_; }

Outputs Builder::Emit(Op op, Attrs attrs, std::span<const Var> inputs, const Loc& loc) {
  auto node = std::make_shared<Node>();
  node->op = op;
  node->attrs = std::move(attrs);
  node->inputs.assign(inputs.begin(), inputs.end());
  node->id = next_id_++;
  node->phase = phase_;
  node->scope = scope_;
  node->loc = origin_ ? origin_->loc : line_ ? *line_ : loc;
  for (const Var& in : inputs)
    if (!in.defined()) FailAt(*node, kEmptyOperand);
  const OpRecord& record = Record(op);
  record.infer(*node);
  node->parameter_chain = op == Op::kLeaf ? node->attrs.IntOr("parameter", 0) != 0
                                          : std::all_of(inputs.begin(), inputs.end(),
                                                        [](const Var& in) { return in.node().parameter_chain; });
  Accept(node);
  Outputs outputs;
  for (size_t i = 0; i < node->outputs.size(); i++) outputs.emplace_back(node, int(i));
  return outputs;
}

uint64_t Builder::NextRandomKey() {
  return RandomKey(options_.seed, options_.random_phase, *scope_, random_ops_[*scope_]++);
}

double Builder::ItemOf(const Var& value, const Loc& loc) {
  Fail(
      fmt::format("{}: expected a value, got {} {} made at {}, which is not known while a function is traced; choose "
                  "with Select, return the value, or run the function with executor eager",
                  ToString(loc), Name(value.dtype()), ToString(value.shape()), ToString(value.node().loc)));
}

Var Builder::Constant(const Tensor& tensor, const Loc& loc) {
  Fail(
      fmt::format("{}: expected a Var, got a Tensor {} {} from outside of the function that is traced; pass it as an "
                  "argument, or make it an entry of the State",
                  ToString(loc), Name(tensor.dtype()), ToString(tensor.shape())));
}

void TraceBuilder::Accept(const std::shared_ptr<Node>& node) {
  for (const Var& in : node->inputs)
    if (refuses_eager_ && !in.node().values.empty())
      FailAt(*node, fmt::format("an operand made at {} is a value from outside of the function that is traced; pass it "
                                "as an argument, or make it an entry of the State",
                                ToString(in.node().loc)));
  nodes_.push_back(node);
}

Var::operator bool() const {
  if (!defined()) Fail(kEmptyOperand);
  return Item(node().loc) != 0;
}
double Var::Item(Loc loc) const {
  CheckAssigned(*this, "item", loc);
  return CurrentBuilder().ItemOf(*this, loc);
}
VarAt::VarAt(const Tensor& tensor, Loc l) : var(CurrentBuilder().Constant(tensor, l)), loc(l) {}

Graph TraceBuilder::Finish(std::vector<NamedValue> outputs, std::vector<NamedValue> writes) {
  Graph graph{std::move(nodes_), std::move(outputs), std::move(writes)};
  nodes_.clear();
  if (VerifiesPasses()) Verify(graph);
  return graph;
}

ModuleScope::ModuleScope(const std::string& name) : builder_(CurrentBuilder()), previous_(builder_.scope_) {
  builder_.scope_ = std::make_shared<const std::string>(previous_->empty() ? name : *previous_ + "." + name);
}
ModuleScope::~ModuleScope() { builder_.scope_ = previous_; }

OriginScope::OriginScope(Phase phase, const Node* origin)
    : builder_(CurrentBuilder()),
      previous_phase_(builder_.phase_),
      previous_origin_(builder_.origin_),
      previous_scope_(builder_.scope_) {
  builder_.phase_ = phase;
  builder_.origin_ = origin;
  if (origin && origin->scope) builder_.scope_ = origin->scope;
}
OriginScope::~OriginScope() {
  builder_.phase_ = previous_phase_;
  builder_.origin_ = previous_origin_;
  builder_.scope_ = previous_scope_;
}

LineScope::LineScope(const Loc& loc) : builder_(CurrentBuilder()), previous_(builder_.line_), loc_(loc) {
  if (!previous_) builder_.line_ = &loc_;
}
LineScope::~LineScope() { builder_.line_ = previous_; }

Outputs Emit(Op op, Attrs attrs, std::initializer_list<Var> inputs, const Loc& loc) {
  return CurrentBuilder().Emit(op, std::move(attrs), std::span(inputs.begin(), inputs.size()), loc);
}
Var EmitOne(Op op, Attrs attrs, std::initializer_list<Var> inputs, const Loc& loc) {
  return Emit(op, std::move(attrs), inputs, loc)[0];
}

}  // namespace weft
