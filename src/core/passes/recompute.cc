#include "weft/core/passes/recompute.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/storage.h"
#include "weft/core/ir/verify.h"
#include "weft/core/passes/recompute_choice.h"
#include "weft/core/passes/replacements.h"

namespace weft {
namespace {

// The backward pass gathers weights again if they are not kept (parallel.regather). Twins finds the node of the
// backward pass that computes the same from parameters as one of the forward pass.
class Twins {
 public:
  explicit Twins(const Graph& graph) {
    for (const auto& node : graph.nodes) {
      bool parameter = node->op == Op::kLeaf && node->attrs.IntOr("parameter", 0),
           derived = !node->inputs.empty() && std::all_of(node->inputs.begin(), node->inputs.end(),
                                                          [&](const Var&x) { return first_.contains(&x.node()); });
      if (!parameter && !derived) continue;
      const Node* first = Same(*node);
      first_[node.get()] = first ? first : node.get();
      if (!first) distinct_[{node->op, First(node->inputs)}].push_back(node.get());
      if (first && node->phase == Phase::kBackward && first->phase == Phase::kForward)
        backward_.try_emplace(first, node);
    }
  }
  // Returns null if the backward pass has no such node.
  std::shared_ptr<Node> Of(const Node& forward) const {
    auto first = first_.find(&forward);
    if (first == first_.end()) return nullptr;
    auto it = backward_.find(first->second);
    return it == backward_.end() ? nullptr : it->second;
  }

 private:
  using Inputs = std::vector<std::pair<const Node*, int>>;

  Inputs First(std::span<const Var> inputs) const {
    Inputs first;
    for (const Var& x : inputs) first.push_back({first_.at(&x.node()), x.index()});
    return first;
  }
  // Returns the first node that computes the same, in either phase, or null.
  const Node* Same(const Node& node) const {
    if (node.op == Op::kLeaf) return nullptr;
    auto it = distinct_.find({node.op, First(node.inputs)});
    if (it == distinct_.end()) return nullptr;
    for (const Node* other : it->second)
      if (other->attrs.items() == node.attrs.items() && other->outputs[0].sharding == node.outputs[0].sharding)
        return other;
    return nullptr;
  }

  absl::flat_hash_map<const Node*, const Node*> first_;
  absl::flat_hash_map<std::pair<Op, Inputs>, std::vector<const Node*>> distinct_;
  absl::flat_hash_map<const Node*, std::shared_ptr<Node>> backward_;
};

class Rewriter {
 public:
  Rewriter(const LocalProgram& program, const RecomputeOptions& options)
      : program_(program), again_(RecomputeChoice(program.graph, options)), twins_(program.graph) {}

  LocalProgram Run() {
    if (again_.empty()) return program_;
    for (const auto& node : program_.graph.nodes) Emit(node);
    Graph graph = std::move(result_);
    CarryNames(program_.graph, graph, [this](const Var& v) { return Var(now_.at(&v.node()), v.index()); });
    return {RemoveDead(graph), program_.mesh, program_.inlined};
  }

 private:
  // Adds a node of the program, once. Those that it reads come first: a gather of the backward pass may be needed by a
  // value that is computed again before its own first reader.
  std::shared_ptr<Node> Emit(const std::shared_ptr<Node>& node) {
    if (auto it = now_.find(node.get()); it != now_.end()) return it->second;
    auto inputs = node->inputs;
    for (Var& x : inputs) x = node->phase == Phase::kBackward ? ForBackward(x) : Var(Emit(x.node_ptr()), x.index());
    return now_[node.get()] = Push(node, inputs, node->phase);
  }

  // Returns what the backward pass reads in place of x. What it does not gather again, such as biases, is kept.
  Var ForBackward(const Var& x) {
    const std::shared_ptr<Node>& node = x.node_ptr();
    bool forward = node->phase == Phase::kForward && node->op != Op::kLeaf;
    if (forward && again_.contains(node.get())) return Var(Again(node), x.index());
    std::shared_ptr<Node> twin = forward ? twins_.Of(*node) : nullptr;
    return Var(Emit(twin ? twin : node), x.index());
  }

  // Returns the node that computes `node` again, directly before its first reader in the backward pass.
  std::shared_ptr<Node> Again(const std::shared_ptr<Node>& node) {
    if (auto it = copies_.find(node.get()); it != copies_.end()) return it->second;
    auto inputs = node->inputs;
    for (Var& x : inputs) x = ForBackward(x);
    return copies_[node.get()] = Push(node, inputs, Phase::kBackward);
  }

  std::shared_ptr<Node> Push(std::shared_ptr<Node> node, const absl::InlinedVector<Var, 3>& inputs, Phase phase) {
    if (node->inputs != inputs || node->phase != phase) {
      node = std::make_shared<Node>(*node);
      node->inputs = inputs;
      node->phase = phase;
    }
    result_.nodes.push_back(node);
    return node;
  }

  const LocalProgram& program_;
  absl::flat_hash_set<const Node*> again_;
  Twins twins_;
  absl::flat_hash_map<const Node*, std::shared_ptr<Node>> now_, copies_;
  Graph result_;
};

}  // namespace

LocalProgram Recompute(const LocalProgram& program, const RecomputeOptions& options) {
  if (options.mode == RecomputeMode::kNone) return program;
  LocalProgram result = Rewriter(program, options).Run();
  if (VerifiesPasses()) VerifyLocal(result.graph, result.mesh);
  return result;
}

}  // namespace weft
