#include "weft/core/transforms/grad.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

using NodePtr = std::shared_ptr<Node>;

class Backward {
 public:
  // With `partial`, each value of `wrt` is independent of the others, even if one is computed from another.
  Backward(std::span<const Var> results, std::span<const Var> cotangents, std::span<const Var> wrt,
           std::optional<DType> parameter_sums, bool partial = false)
      : wrt_(wrt), parameter_sums_(parameter_sums), partial_(partial) {
    for (const Var& w : wrt) targets_.insert(&w.node());
    Collect(results);
    for (size_t i = 0; i < results.size(); i++)
      if (cotangents[i].defined()) Accumulate(results[i], cotangents[i]);
  }

  std::vector<Var> Run() {
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) Visit(*it);
    std::vector<Var> gradients;
    for (const Var& w : wrt_) gradients.push_back(Cotangent(w));
    return gradients;
  }

 private:
  using Cotangents = absl::InlinedVector<Var, 1>;

  // Collects the nodes between `wrt` and the results, in order of building.
  void Collect(std::span<const Var> results) {
    absl::flat_hash_set<const Node*> seen;
    std::vector<NodePtr> stack;
    for (const Var& r : results) stack.push_back(r.node_ptr());
    while (!stack.empty()) {
      NodePtr node = std::move(stack.back());
      stack.pop_back();
      if (!seen.insert(node.get()).second) continue;
      if (!Ends(*node))
        for (const Var& in : node->inputs) stack.push_back(in.node_ptr());
      order_.push_back(std::move(node));
    }
    std::sort(order_.begin(), order_.end(), [](const NodePtr& a, const NodePtr& b) { return a->id < b->id; });
    for (const NodePtr& node : order_) {
      bool reached = targets_.contains(node.get());
      if (node->op != Op::kStopGradient)
        for (const Var& in : node->inputs) reached |= reached_.contains(&in.node());
      if (reached) reached_.insert(node.get());
    }
    std::erase_if(order_, [&](const NodePtr& node) { return !reached_.contains(node.get()); });
  }

  bool Ends(const Node& node) const { return partial_ && targets_.contains(&node); }

  Var& Cotangent(const Var& v) {
    Cotangents& list = cotangents_[&v.node()];
    list.resize(v.node().outputs.size());
    return list[size_t(v.index())];
  }

  void Accumulate(const Var& v, const Var& dv) {
    Var& sum = Cotangent(v);
    if (!sum.defined()) {
      sum = dv;
      return;
    }
    OriginScope origin(Phase::kBackward, &v.node());
    DType wider = SizeOf(sum.dtype()) > SizeOf(dv.dtype()) ? sum.dtype() : dv.dtype();
    sum = Add(Converted(sum, wider), Converted(dv, wider));
  }

  // Casts a gradient. An incomplete sum over ranks stays Partial, also through a widening cast.
  static Var Converted(const Var& gradient, DType dtype) {
    if (gradient.dtype() == dtype) return gradient;
    return EmitOne(Op::kCast, {{"dtype", int(dtype)}, {"parameter_gradient", 1}}, {gradient}, gradient.node().loc);
  }

  // Chains of parameters keep their Partial down to the leaf. Reshards and broadcasts convert by themselves.
  static bool Exempt(const Node& node) {
    return node.parameter_chain || node.op == Op::kReshard || Record(node.op).generator;
  }

  void Visit(const NodePtr& node) {
    auto found = cotangents_.find(node.get());
    if (found == cotangents_.end()) return;
    Cotangents& own = found->second;
    OriginScope origin(Phase::kBackward, node.get());
    std::vector<Var> dy(own.begin(), own.end());
    for (size_t i = 0; i < dy.size(); i++)
      if (dy[i].defined() && !Exempt(*node)) dy[i] = own[i] = ReshardLike(dy[i], Var(node, int(i)));
    NarrowForProducts(*node, dy);
    bool inner = std::any_of(node->inputs.begin(), node->inputs.end(),
                             [&](const Var& in) { return reached_.contains(&in.node()); });
    if (!inner || node->op == Op::kStopGradient || Ends(*node)) return;
    std::vector<Var> dx(node->inputs.size());
    Derive(node, dy, dx);
    WidenForParameters({node, dy, dx, parameter_sums_});
    for (size_t i = 0; i < dx.size(); i++)
      if (dx[i].defined() && reached_.contains(&node->inputs[i].node())) Accumulate(node->inputs[i], dx[i]);
  }

  // A parameter's gradient may be wider than the parameter. Rules of linear ops pass it through. Other rules combine it
  // with operands of the node's own type, so it is cast to that.
  static void NarrowForProducts(const Node& node, std::vector<Var>& dy) {
    if (!node.parameter_chain || node.inputs.empty() || Record(node.op).dims(node).linear == Linear::kJoint) return;
    for (size_t i = 0; i < dy.size(); i++)
      if (dy[i].defined()) dy[i] = Cast(dy[i], node.outputs[i].dtype);
  }

  // A parameter's gradient that no sum made also gets the type of the sums, because it may be added to one. The
  // gradient of a broadcast stays narrow: it is as large as the broadcast value, and its sum comes next.
  static void WidenForParameters(const GradCall& call) {
    for (size_t i = 0; i < call.dx.size(); i++) {
      Var& dx = call.dx[i];
      const Var& in = call.in(int(i));
      if (!dx.defined() || !call.Widens(int(i)) || dx.dtype() != in.dtype() || Record(in.node().op).generator) continue;
      dx = Converted(dx, AccumulateType(dx.dtype()));
    }
  }

  // Uses the op's own rule if there is one and it covers these cotangents, and the op's composition otherwise.
  void Derive(const NodePtr& node, const std::vector<Var>& dy, std::vector<Var>& dx) {
    const OpRecord& record = Record(node->op);
    bool only_first =
        dy[0].defined() && std::none_of(dy.begin() + 1, dy.end(), [](const Var& d) { return d.defined(); });
    if (record.grad && (dy.size() == 1 || only_first)) {
      GradCall call{node, dy, dx, parameter_sums_};
      record.grad(call);
      return;
    }
    if (!record.fallback) FailAt(*node, "has neither a derivative nor a composition to differentiate");
    Node same = WithoutBlockedShards(*node);
    if (record.blocks && NumRows(*node) > record.blocks->rows)
      DeriveByBlocks(*node, same, dy, dx);
    else
      DeriveComposition(same, dy, dx);
    for (size_t i = 0; i < dx.size(); i++)
      if (dx[i].defined() && !(same.inputs[i] == node->inputs[i])) dx[i] = ReshardLike(dx[i], node->inputs[i]);
  }

  // Returns the node with other operands: the dims that no axis may shard are whole. The composition's ops would shard
  // them, and might meet two of them on one axis.
  static Node WithoutBlockedShards(const Node& node) {
    Dims dims = Record(node.op).dims(node);
    Node same;
    same.op = node.op, same.attrs = node.attrs, same.inputs = node.inputs, same.outputs = node.outputs;
    same.phase = node.phase, same.scope = node.scope, same.loc = node.loc;
    for (size_t i = 0; i < dims.in.size(); i++)
      for (size_t d = 0; d < dims.in[i].size(); d++)
        if (dims.blocked.find(dims.in[i][d]) != std::string::npos)
          same.inputs[i] = EmitOne(Op::kReshard, {{"dim", int64_t(d)}}, {same.inputs[i]}, node.loc);
    return same;
  }

  void DeriveComposition(const Node& node, const std::vector<Var>& dy, std::vector<Var>& dx) const {
    Outputs same = Record(node.op).fallback(node);
    std::vector<Var> results(same.begin(), same.end());
    // A saved result among the operands (a log-sum-exp, a norm's statistic) depends on the other operands. Its share
    // arrives through its own node.
    dx = Backward(results, dy, node.inputs, parameter_sums_, /*partial=*/true).Run();
    // A repeated operand already has the sum of all its shares.
    for (size_t i = 0; i < dx.size(); i++)
      if (std::find(node.inputs.begin(), node.inputs.begin() + long(i), node.inputs[i]) !=
          node.inputs.begin() + long(i))
        dx[i] = {};
  }

  static int64_t NumRows(const Node& node) {
    Dims dims = Record(node.op).dims(node);
    return node.inputs[0].dim(int(dims.in[0].find(Record(node.op).blocks->label)));
  }

  // A block of rows of an op that has a BlockRule.
  struct Block {
    char label;
    int64_t first, rows;
    Loc loc;

    bool Cuts(const std::string& labels) const { return labels.find(label) != std::string::npos; }
    Var Of(const Var& x, const std::string& labels) const {
      if (!x.defined() || !Cuts(labels)) return x;
      return Slice(x, int(labels.find(label)), first, rows, loc);
    }
    // Returns `whole` with this block's rows replaced. It is updated in place if nothing else reads it.
    Var Into(const Var& whole, const Var& part, const std::string& labels) const {
      return DynamicUpdate(whole, part, Full(first, DType::kI64, {}), int(labels.find(label)), loc);
    }
  };

  // Differentiates the composition for one block of rows after the other. The intermediate values of a block are
  // needed no longer than the block. `same` is the node with the operands that the composition gets.
  void DeriveByBlocks(const Node& node, const Node& same, const std::vector<Var>& dy, std::vector<Var>& dx) {
    const BlockRule& rule = *Record(node.op).blocks;
    Dims dims = Record(node.op).dims(node);
    int64_t rows = NumRows(node);
    std::vector<Sum> sums(dx.size());
    for (int64_t first = 0; first < rows; first += rule.rows) {
      Block block{rule.label, first, std::min(rule.rows, rows - first), node.loc};
      Node part;
      part.op = node.op, part.loc = node.loc, part.scope = node.scope, part.phase = node.phase;
      part.attrs = rule.attrs(node, first);
      for (size_t i = 0; i < dx.size(); i++) part.inputs.push_back(block.Of(same.inputs[i], dims.in[i]));
      Record(node.op).infer(part);
      std::vector<Var> dy_part, dx_part(dx.size());
      for (size_t i = 0; i < dy.size(); i++) dy_part.push_back(block.Of(dy[i], dims.out[i]));
      DeriveComposition(part, dy_part, dx_part);
      for (size_t i = 0; i < dx.size(); i++)
        if (dx_part[i].defined() && reached_.contains(&node.inputs[i].node()))
          AddBlock(block, node.inputs[i], dims.in[i], dx_part[i], sums[i]);
    }
    for (size_t i = 0; i < dx.size(); i++) dx[i] = sums[i].value;
  }

  // The sum of the blocks' gradients of an operand, and of the gradient of its other uses if that is among them.
  struct Sum {
    Var value;
    bool has_others = false;
  };
  // Adds a block's gradient. If the operand has rows, they are written to one tensor, because pieces to be joined later
  // would take as much memory again. It is the gradient that has arrived from the operand's other uses, if there is one
  // of the same type.
  void AddBlock(const Block& block, const Var& operand, const std::string& labels, const Var& part, Sum& sum) {
    if (!block.Cuts(labels)) {
      sum.value = sum.value.defined() ? sum.value + part : part;
      return;
    }
    if (!sum.value.defined()) {
      Var& others = Cotangent(operand);
      sum.has_others = others.defined() && others.dtype() == part.dtype();
      if (sum.has_others)
        std::swap(sum.value, others);
      else
        sum.value = ReshardLike(Full(0, part.dtype(), operand.shape()), operand);
    }
    Var rows = sum.has_others ? block.Of(sum.value, labels) + part : part;
    sum.value = block.Into(sum.value, rows, labels);
  }

  std::span<const Var> wrt_;
  std::optional<DType> parameter_sums_;
  bool partial_;
  std::vector<NodePtr> order_;
  absl::flat_hash_set<const Node*> targets_, reached_;
  absl::flat_hash_map<const Node*, Cotangents> cotangents_;
};

// Throws Error for a value without history. The eager builder keeps operands only if a value to differentiate reaches
// them.
void CheckHasHistory(const Var& v, size_t i, const Loc& loc) {
  WEFT_CHECK(v.defined(),
             fmt::format("Grad at {}: operand {} is empty (a Var that was never assigned)", ToString(loc), i));
  const Node& node = v.node();
  WEFT_CHECK(node.values.empty() || node.requires_grad,
             fmt::format("Grad at {}: operand {}, {} made at {}, does not require a gradient; make it with "
                         "{{.requires_grad = true}}",
                         ToString(loc), i, ToString(v), ToString(node.loc)));
}
void CheckCotangents(std::span<const Var> results, std::span<const Var> cotangents, const Loc& loc) {
  auto shown = [](const Var& v) { return v.defined() ? ToString(v) : std::string("an empty Var"); };
  std::string at = fmt::format("Vjp at {}", ToString(loc));
  WEFT_CHECK(results.size() == cotangents.size(),
             fmt::format("{}: expected cotangents of {} results, got {}; give one for each result", at, results.size(),
                         cotangents.size()));
  for (size_t i = 0; i < results.size(); i++) {
    const Var &y = results[i], &dy = cotangents[i];
    WEFT_CHECK(y.defined() && IsFloating(y.dtype()),
               fmt::format("{}: result {}: expected floats, got {}; leave it out", at, i, shown(y)));
    WEFT_CHECK(
        dy.defined() && dy.dtype() == y.dtype() && dy.shape() == y.shape(),
        fmt::format("{}: cotangent {}: expected {}, got {}; it must be like its result", at, i, shown(y), shown(dy)));
  }
}

}  // namespace

std::vector<Var> Vjp(std::span<const Var> results, std::span<const Var> cotangents, std::span<const Var> wrt, Loc loc) {
  CheckCotangents(results, cotangents, loc);
  for (size_t i = 0; i < wrt.size(); i++)
    WEFT_CHECK(wrt[i].defined(),
               fmt::format("Vjp at {}: operand {} is empty (a Var that was never assigned)", ToString(loc), i));
  return Backward(results, cotangents, wrt, {}).Run();
}

std::vector<Var> Grad(Var loss, std::span<const Var> wrt, const GradOptions& options, Loc loc) {
  Var seed = options.seed;
  CheckAssigned(loss, "Grad", loc);
  WEFT_CHECK(loss.rank() == 0 && IsFloating(loss.dtype()),
             fmt::format("Grad at {}: expected a floating scalar, got {} made at {}; add its elements up (SumAll)",
                         ToString(loc), ToString(loss), ToString(loss.node().loc)));
  WEFT_CHECK(!seed.defined() || (seed.rank() == 0 && seed.dtype() == loss.dtype()),
             fmt::format("Grad at {}: expected a seed of {}, the loss's, got {}", ToString(loc), ToString(loss),
                         ToString(seed)));
  for (size_t i = 0; i < wrt.size(); i++) CheckHasHistory(wrt[i], i, loc);
  OriginScope origin(Phase::kBackward, &loss.node());
  if (!seed.defined()) seed = Full(1.0, loss.dtype(), {});
  std::vector<Var> gradients = Backward(std::span(&loss, 1), std::span(&seed, 1), wrt, options.parameter_sums).Run();
  for (size_t i = 0; i < gradients.size(); i++)
    if (!gradients[i].defined()) gradients[i] = Full(0.0, wrt[i].dtype(), wrt[i].shape());
  return gradients;
}

}  // namespace weft
