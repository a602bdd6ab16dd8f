#include "weft/core/passes/fuse.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "weft/core/base/shard.h"
#include "weft/core/ir/record.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/linear_activations.h"
#include "weft/core/passes/fuse_loss.h"
#include "weft/core/passes/narrow_terms.h"
#include "weft/core/passes/replacements.h"

namespace weft {
namespace {

class Fuser {
 public:
  Fuser(const LocalProgram& program, const KernelTable& kernels, const FuseOptions& options)
      : program_(program), kernels_(kernels), options_(options) {
    const Graph& graph = program.graph;
    for (size_t i = 0; i < graph.nodes.size(); i++) {
      position_[graph.nodes[i].get()] = i;
      for (const Var& in : graph.nodes[i]->inputs) uses_[KeyOf(in)]++;
    }
    for (auto* list : {&graph.outputs, &graph.writes})
      for (const NamedValue& named : *list) uses_[KeyOf(named.value)]++;
    for (const NamedValue& write : graph.writes) written_.insert(write.name);
  }

  LocalProgram Run() {
    for (const auto& node : program_.graph.nodes) {
      FindNormResidual(*node);
      FindCopy(*node);
    }
    for (const auto& node : program_.graph.nodes) Rewrite(node);
    Graph fused = std::move(result_);
    CarryNames(program_.graph, fused, now_);
    return {RemoveDead(fused), program_.mesh, program_.inlined};
  }

 private:
  bool UsedOnce(const Var& v) const { return uses_.at(KeyOf(v)) == 1; }
  static bool SameValue(const Var& a, const Var& b) { return a.dtype() == b.dtype() && a.shape() == b.shape(); }
  Var Now(const Var& old) const { return now_.Now(old); }

  // Returns the op that also adds a residual, if there is one and the device has it, and `gradient` otherwise.
  Op WithResidual(Op gradient) const {
    Op op = Record(gradient).with_residual;
    return op != Op::kCount && kernels_.Has(op) ? op : gradient;
  }

  // For add(gradient, r): lets the gradient's kernel add r, if r is computed before the gradient.
  void FindNormResidual(const Node& add) {
    if (add.op != Op::kAdd) return;
    for (size_t k = 0; k < 2; k++) {
      const Var &gradient = add.inputs[k], &other = add.inputs[1 - k];
      const Node& node = gradient.node();
      if (WithResidual(node.op) == node.op || gradient.index() != 0 || !UsedOnce(gradient) ||
          !SameValue(gradient, other) || residuals_.contains(&node))
        continue;
      if (position_.at(&other.node()) > position_.at(&node)) continue;
      residuals_[&node] = other;
      absorbed_[&add] = gradient;
      return;
    }
  }

  // For cast(new parameter): lets the update's kernel write the cast value too, so that no kernel reads the parameter
  // for it again.
  void FindCopy(const Node& cast) {
    if (cast.op != Op::kCast || cast.inputs[0].index() != 0) return;
    const Node& update = cast.inputs[0].node();
    if (!Record(update.op).writes_cast || copies_.contains(&update)) return;
    if (update.outputs[0].dtype != AccumulateType(update.outputs[0].dtype)) return;
    copies_[&update] = &cast;
    copied_.insert(&cast);
  }
  // Returns the update with one more result, which takes the place of the cast.
  std::shared_ptr<Node> WithCopy(const std::shared_ptr<Node>& made, const Node& old) {
    auto it = copies_.find(&old);
    if (it == copies_.end()) return made;
    auto update = std::make_shared<Node>(*made);
    update->attrs.Set({"dtype", it->second->attrs.Int("dtype")});
    update->outputs.push_back(it->second->outputs[0]);
    now_.Set({it->second, 0}, Var(update, int(update->outputs.size()) - 1));
    return update;
  }

  void Rewrite(const std::shared_ptr<Node>& node) {
    if (copied_.contains(node.get())) return;
    if (auto it = absorbed_.find(node.get()); it != absorbed_.end()) {
      now_.Set({node.get(), 0}, Now(it->second));
      return;
    }
    std::shared_ptr<Node> fused = AsLinear(*node);
    if (!fused) fused = AsActivationGrad(*node);
    if (!fused) fused = AsOneSum(*node);
    if (!fused) fused = WithNewInputs(node);
    fused = WithCopy(WithParameters(fused, node), *node);
    if (fused != node) now_.Set(*node, fused);
    result_.nodes.push_back(std::move(fused));
  }

  // Returns the leaf that v is, or is another shape of; null if v is computed.
  static const Node* LeafOf(const Var& v) {
    const Node* node = &v.node();
    while (node->op == Op::kSplit || node->op == Op::kMerge) node = &node->inputs[0].node();
    return node->op == Op::kLeaf ? node : nullptr;
  }

  // Sets the attribute `parameter` of products and norms: which operands, as bits, are memory that the program never
  // writes. A kernel may then read them before the previous kernel of the program has ended. There is one if the first
  // operand is computed. Returns `made` with the attribute, as a copy if it is still `old`.
  std::shared_ptr<Node> WithParameters(const std::shared_ptr<Node>& made, const std::shared_ptr<Node>& old) const {
    if (!Record(made->op).early_operands || LeafOf(made->inputs[0])) return made;
    int64_t bits = 0;
    for (size_t i = 1; i < made->inputs.size(); i++)
      if (const Node* leaf = LeafOf(made->inputs[i]); leaf && !written_.contains(leaf->attrs.Text("name")))
        bits |= int64_t(1) << i;
    if (bits == 0 || !kernels_.Has(Op::kLinear)) return made;
    std::shared_ptr<Node> marked = made == old ? std::make_shared<Node>(*made) : made;
    marked->attrs.Set({"parameter", bits});
    return marked;
  }

  std::shared_ptr<Node> WithNewInputs(const std::shared_ptr<Node>& node) const {
    auto residual = residuals_.find(node.get());
    if (residual == residuals_.end()) return now_.WithNewInputs(node);
    auto copy = std::make_shared<Node>(*now_.WithNewInputs(node));
    copy->op = WithResidual(copy->op);
    copy->inputs.push_back(Now(residual->second));
    return copy;
  }

  // Returns the node that computes `old` now, if it is a product that only the caller reads, and null otherwise.
  const Node* Product(const Var& old) const {
    if (!UsedOnce(old)) return nullptr;
    Var now = Now(old);
    const Node& node = now.node();
    bool product = node.op == Op::kEinsum || node.op == Op::kLinear;
    return product && IsFloating(node.outputs[0].dtype) ? &node : nullptr;
  }
  static bool Has(const Node& product, AttrName<int64_t> part) { return product.attrs.IntOr(part, 0) != 0; }
  static bool IsActivated(const Node& product) {
    return product.op == Op::kLinear &&
           std::ranges::any_of(product.attrs.items(), [](const Attrs::Item& item) { return item.name == "kind"; });
  }

  // If v is a value broadcast over leading dims, returns that value, and null otherwise.
  static const Var* Broadcasted(const Var& v) {
    const Var* at = &v;
    while (at->node().op == Op::kBroadcast && at->node().attrs.Int("dim") == 0) at = &at->node().inputs[0];
    return at == &v ? nullptr : at;
  }

  std::shared_ptr<Node> AsLinear(const Node& node) const {
    if (!kernels_.Has(Op::kLinear)) return nullptr;
    if (node.op == Op::kCast) return AsWiderProduct(node);
    if (std::ranges::find(kLinearActivations, node.op) != std::end(kLinearActivations)) return AsActivated(node);
    if (node.op != Op::kAdd) return nullptr;
    // If both operands are products, the later one takes the other as its residual.
    size_t later = position_.at(&node.inputs[0].node()) > position_.at(&node.inputs[1].node()) ? 0 : 1;
    for (size_t k : {later, 1 - later}) {
      const Node* product = Product(node.inputs[k]);
      const Var& other = node.inputs[1 - k];
      if (!product) continue;
      const Var* bias = Broadcasted(other);
      if (bias && !Has(*product, "bias") && !Has(*product, "residual") && !IsActivated(*product))
        return Extended(node, *product, Now(*bias), "bias");
      if (!bias && !Has(*product, "residual") && SameValue(node.inputs[k], other))
        return Extended(node, *product, Now(other), "residual");
    }
    return nullptr;
  }

  // A product whose result is cast to the accumulate type, such as a weight gradient in f32. It already sums in that
  // type.
  std::shared_ptr<Node> AsWiderProduct(const Node& cast) const {
    const Node* product = Product(cast.inputs[0]);
    bool wider = product && cast.outputs[0].dtype == AccumulateType(product->outputs[0].dtype);
    if (!wider || Has(*product, "bias") || Has(*product, "residual") || IsActivated(*product)) return nullptr;
    return Made(cast, *product);
  }

  // An activation of a product that has no residual yet.
  std::shared_ptr<Node> AsActivated(const Node& activation) const {
    const Node* product = Product(activation.inputs[0]);
    if (!product || Has(*product, "residual") || IsActivated(*product)) return nullptr;
    std::shared_ptr<Node> fused = Made(activation, *product);
    fused->attrs.Set({"kind", Name(activation.op)});
    return fused;
  }

  std::shared_ptr<Node> Extended(const Node& add, const Node& product, const Var& operand,
                                 AttrName<int64_t> part) const {
    std::shared_ptr<Node> fused = Made(add, product);
    fused->attrs.Set({part, 1});
    fused->inputs.push_back(operand);
    return fused;
  }

  // Returns `product` as a linear op that computes the value of `node` and takes its place.
  static std::shared_ptr<Node> Made(const Node& node, const Node& product) {
    auto fused = std::make_shared<Node>(product);
    if (product.op == Op::kEinsum)
      fused->attrs = {{"eq", product.attrs.Text("eq")}, {"bias", 0}, {"residual", 0}, {"wide", 0}};
    fused->op = Op::kLinear;
    fused->attrs.Set({"wide", node.outputs[0].dtype != product.inputs[0].dtype()});
    fused->outputs = node.outputs;
    fused->id = node.id;
    return fused;
  }

  // The gradient of an activation whose dy is a product that nothing else reads.
  std::shared_ptr<Node> AsActivationGrad(const Node& node) const {
    const OpRecord& record = Record(node.op);
    Op op = record.with_product;
    if (!options_.activation_grads || op == Op::kCount || !kernels_.Has(op)) return nullptr;
    const Node* product = Product(node.inputs[size_t(record.dy)]);
    if (!product || product->op != Op::kEinsum) return nullptr;
    auto fused = std::make_shared<Node>(node);
    fused->op = op;
    fused->attrs = {{"eq", product->attrs.Text("eq")}};
    fused->inputs = {product->inputs[0], product->inputs[1]};
    for (int i = 0; i < int(node.inputs.size()); i++)
      if (i != record.dy) fused->inputs.push_back(Now(node.inputs[size_t(i)]));
    return fused;
  }

  // The gradient of a bias of [B, T, C] is a sum over dim 0 of a sum over dim 0. It becomes one sum over both dims,
  // which a Merge joins. This applies only to devices that fuse. On others results keep the bits of the two sums.
  std::shared_ptr<Node> AsOneSum(const Node& node) {
    auto sums_dim0 = [](const Node& n) { return n.op == Op::kReduceSum && n.attrs.Int("dim") == 0; };
    if (!kernels_.Has(Op::kLinear) || !sums_dim0(node) || !UsedOnce(node.inputs[0])) return nullptr;
    Var operand = Now(node.inputs[0]);
    const Node& inner = operand.node();
    std::shared_ptr<Node> merged = sums_dim0(inner) ? Merged(inner) : nullptr;
    if (!merged) return nullptr;
    auto sum = std::make_shared<Node>(node);
    sum->inputs[0] = Var(merged, 0);
    // Either sum may be the one that widens its input, and then the merged sum widens it too.
    if (sum->outputs[0].dtype != merged->outputs[0].dtype) sum->attrs.Set({"wide", 1});
    result_.nodes.push_back(std::move(merged));
    return sum;
  }

  // Returns a node that merges the first two dims of the sum's input, to take the sum's place. Returns null if the
  // merge is not a view: a broadcast is not in memory, and an uneven shard of the first dim is not an even part of
  // both.
  std::shared_ptr<Node> Merged(const Node& sum) const {
    const Var& x = sum.inputs[0];
    ValueInfo info = x.node().outputs[size_t(x.index())];
    if (x.node().op == Op::kBroadcast || info.shape.size() < 2 || info.sharding.IsSharded(1)) return nullptr;
    for (Shape* shape : {&info.shape, &info.global}) {
      (*shape)[1] *= (*shape)[0];
      shape->erase(shape->begin());
    }
    absl::InlinedVector<Placement, kMaxAxes> placements;
    for (int a = 0; a < info.sharding.num_axes(); a++) {
      placements.push_back(info.sharding[a]);
      if (placements.back().kind == Placement::kShard && placements.back().dim > 0) placements.back().dim--;
    }
    info.sharding = Sharding(std::span<const Placement>(placements));
    if (ChunkShape(info.global, info.sharding, program_.mesh) != info.shape) return nullptr;
    auto merged = std::make_shared<Node>(sum);
    merged->op = Op::kMerge;
    merged->outputs = {info};
    return merged;
  }

  const LocalProgram& program_;
  const KernelTable& kernels_;
  FuseOptions options_;
  absl::flat_hash_map<const Node*, size_t> position_;
  absl::flat_hash_map<ValueKey, int> uses_;
  absl::flat_hash_set<std::string> written_;  // names of entries
  Replacements now_;
  absl::flat_hash_map<const Node*, Var> residuals_;       // by a norm's gradient: the residual to add
  absl::flat_hash_map<const Node*, Var> absorbed_;        // by an add that became such a residual: the gradient
  absl::flat_hash_map<const Node*, const Node*> copies_;  // by an update: the cast of its parameter
  absl::flat_hash_set<const Node*> copied_;               // these casts
  Graph result_;
};

}  // namespace

LocalProgram Fuse(const LocalProgram& program, const KernelTable& kernels, const FuseOptions& options) {
  LocalProgram heads = NarrowTerms(FuseLoss(program, kernels)), fused = Fuser(heads, kernels, options).Run();
  if (VerifiesPasses()) VerifyLocal(fused.graph, fused.mesh);
  return fused;
}

}  // namespace weft
