#include "weft/core/passes/fuse_loss.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/equation.h"
#include "weft/core/passes/replacements.h"

namespace weft {
namespace {

// The nodes that one fused op replaces. The last three are null if there is no gradient.
struct Head {
  const Node *product, *loss, *gradient = nullptr, *dx = nullptr, *dw = nullptr;
};

// Whether the equation is like "btc,vc->btv", which makes logits from x [..., C] and w [V, C].
bool MakesLogits(const Equation& eq) {
  const auto& [x, w, out] = eq;
  return w.size() == 2 && !x.empty() && x.back() == w[1] && w[0] != w[1] && out == x.substr(0, x.size() - 1) + w[0] &&
         x.find(w[0]) == std::string::npos && x.find(w[1]) == x.size() - 1;
}

class LossFuser {
 public:
  LossFuser(const LocalProgram& program, const KernelTable& kernels) : program_(program), kernels_(kernels) {
    const Graph& graph = program.graph;
    for (const auto& node : graph.nodes)
      for (const Var& in : node->inputs) readers_[KeyOf(in)].push_back(node.get());
    for (auto* list : {&graph.outputs, &graph.writes})
      for (const NamedValue& named : *list) readers_[KeyOf(named.value)].push_back(nullptr);
  }

  LocalProgram Run() {
    for (const auto& node : program_.graph.nodes)
      if (std::optional<Head> head = Match(*node)) {
        heads_.emplace(node.get(), *head);
        for (const Node* gone : {head->product, head->gradient, head->dx, head->dw})
          if (gone) gone_.insert(gone);
      }
    if (heads_.empty()) return program_;
    for (const auto& node : program_.graph.nodes) Emit(node);
    Graph fused = std::move(result_);
    CarryNames(program_.graph, fused, now_);
    return {std::move(fused), program_.mesh, program_.inlined};
  }

 private:
  using Readers = absl::InlinedVector<const Node*, 2>;
  const Readers& ReadersOf(const Node& node, int index) const {
    static const Readers none;
    auto it = readers_.find({&node, index});
    return it == readers_.end() ? none : it->second;
  }

  std::optional<Head> Match(const Node& loss) const {
    if (loss.op != Op::kCrossEntropy) return std::nullopt;
    Head head{&loss.inputs[0].node(), &loss};
    if (head.product->op != Op::kEinsum) return std::nullopt;
    Equation eq(head.product->attrs.Text("eq"));
    const Readers &logits = ReadersOf(*head.product, 0), &lse = ReadersOf(loss, 1);
    if (!MakesLogits(eq)) return std::nullopt;
    if (logits.size() == 1 && lse.empty() && kernels_.Has(Op::kLinearCrossEntropy)) return head;
    if (logits.size() != 2 || lse.size() != 1 || !kernels_.Has(Op::kLinearCrossEntropyGrad)) return std::nullopt;
    head.gradient = lse[0];
    if (!IsGradient(head) || !FindProducts(eq, head) || DependsOn(head.gradient->inputs[3].node(), *head.product))
      return std::nullopt;
    return head;
  }

  static bool IsGradient(const Head& head) {
    const Node* g = head.gradient;
    return g && g->op == Op::kCrossEntropyGrad && g->attrs == head.loss->attrs &&
           g->inputs[0] == head.loss->inputs[0] && g->inputs[1] == head.loss->inputs[1];
  }

  bool FindProducts(const Equation& eq, Head& head) const {
    const Readers& readers = ReadersOf(*head.gradient, 0);
    if (readers.size() != 2) return false;
    for (const Node* reader : readers) {
      if (!reader || reader->op != Op::kEinsum || &reader->inputs[0].node() != head.gradient) continue;
      const std::string& text = reader->attrs.Text("eq");
      if (text == eq.out + "," + eq.b + "->" + eq.a && reader->inputs[1] == head.product->inputs[1]) head.dx = reader;
      if (text == eq.out + "," + eq.a + "->" + eq.b && reader->inputs[1] == head.product->inputs[0]) head.dw = reader;
    }
    return head.dx && head.dw;
  }

  static bool DependsOn(const Node& node, const Node& what) {
    if (&node == &what) return true;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Var& in) {
      return in.node().id >= what.id && DependsOn(in.node(), what);  // ids increase along a graph
    });
  }

  // Emits a node after everything that it reads. In the original order, inputs of the loss's gradient may come after
  // the loss.
  void Emit(const std::shared_ptr<Node>& node) {
    if (gone_.contains(node.get()) || !done_.insert(node.get()).second) return;
    auto head = heads_.find(node.get());
    if (head != heads_.end()) return EmitHead(head->second);
    for (const Var& in : node->inputs) Emit(in.node_ptr());
    std::shared_ptr<Node> now = now_.WithNewInputs(node);
    if (now != node) now_.Set(*node, now);
    result_.nodes.push_back(std::move(now));
  }

  void EmitHead(const Head& head) {
    auto fused = std::make_shared<Node>(*head.loss);
    fused->op = head.gradient ? Op::kLinearCrossEntropyGrad : Op::kLinearCrossEntropy;
    fused->inputs = {head.product->inputs[0], head.product->inputs[1], head.loss->inputs[1]};
    fused->outputs.resize(1);
    if (head.gradient) {
      fused->inputs.push_back(head.gradient->inputs[3]);
      fused->outputs.push_back(head.dx->outputs[0]);
      fused->outputs.push_back(head.dw->outputs[0]);
      fused->outputs[2].dtype = AccumulateType(head.dw->outputs[0].dtype);
    }
    for (Var& in : fused->inputs) {
      Emit(in.node_ptr());
      in = now_.Now(in);
    }
    result_.nodes.push_back(fused);
    now_.Set({head.loss, 0}, Var(fused, 0));
    if (!head.gradient) return;
    now_.Set({head.dx, 0}, Var(fused, 1));
    EmitWeightGradient(*head.dw, Var(fused, 2));
  }

  // The op returns the weight gradient in the accumulate type. Readers that cast it to that type use it directly, other
  // readers get it narrowed.
  void EmitWeightGradient(const Node& dw, const Var& wide) {
    if (wide.dtype() == dw.outputs[0].dtype) {
      now_.Set({&dw, 0}, wide);
      return;
    }
    bool narrow = false;
    for (const Node* reader : ReadersOf(dw, 0)) {
      bool widens = reader && reader->op == Op::kCast && reader->outputs[0].dtype == wide.dtype();
      narrow |= !widens;
      if (!widens) continue;
      now_.Set({reader, 0}, wide);
      gone_.insert(reader);
    }
    if (!narrow) return;
    auto cast = std::make_shared<Node>(dw);
    cast->op = Op::kCast;
    cast->attrs = {{"dtype", int(dw.outputs[0].dtype)}};
    cast->inputs = {wide};
    result_.nodes.push_back(cast);
    now_.Set({&dw, 0}, Var(cast, 0));
  }

  const LocalProgram& program_;
  const KernelTable& kernels_;
  absl::flat_hash_map<ValueKey, Readers> readers_;
  absl::flat_hash_map<const Node*, Head> heads_;  // by their cross_entropy node
  absl::flat_hash_set<const Node*> gone_, done_;
  Replacements now_;
  Graph result_;
};

}  // namespace

LocalProgram FuseLoss(const LocalProgram& program, const KernelTable& kernels) {
  LocalProgram fused = LossFuser(program, kernels).Run();
  if (VerifiesPasses()) VerifyLocal(fused.graph, fused.mesh);
  return fused;
}

}  // namespace weft
