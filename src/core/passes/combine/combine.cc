#include "weft/core/passes/combine/combine.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/ir/storage.h"
#include "weft/core/ir/verify.h"
#include "weft/core/passes/combine/shared_products.h"
#include "weft/core/passes/made_for.h"
#include "weft/core/passes/node_time.h"
#include "weft/core/passes/replacements.h"

namespace weft {
namespace {

class Combiner {
 public:
  Combiner(const LocalProgram& program, const KernelTable& kernels) : program_(program), products_(program, kernels) {
    for (size_t i = 0; i < program.graph.nodes.size(); i++) position_[program.graph.nodes[i].get()] = i;
  }

  LocalProgram Run(const CombineOptions& options) {
    std::vector<SharedProducts::Family> families = products_.Find();
    for (const SharedProducts::Family& family : families) {
      for (const Products& products : family.shared) ReplaceShared(products);
      for (const ProductSum& sum : family.sums) ReplaceSum(sum);
      for (const SharedProducts::Gradients& gradients : products_.GradientsOf(family))
        if (TimePerByte(gradients) <= options.gradient_bytes) ReplaceGradients(gradients);
    }
    return families.empty() ? program_ : Rebuilt();
  }

 private:
  // Returns the parts as one value. Parts that are gathered alike are joined before.
  Var Joined(const std::vector<Var>& parts, int dim) {
    std::vector<ValueKey> keys(parts.size());
    std::ranges::transform(parts, keys.begin(), KeyOf);
    auto it = joined_.find(keys);
    if (it != joined_.end()) return it->second;
    const Node& first = parts[0].node();
    bool gathered = std::ranges::all_of(
        parts, [&](const Var& part) { return part.node().op == Op::kAllGather && part.node().attrs == first.attrs; });
    std::shared_ptr<Node> made;
    if (gathered && first.attrs.Int("dim") != dim) {
      std::vector<Var> shards(parts.size());
      std::ranges::transform(parts, shards.begin(), [](const Var& part) { return part.node().inputs[0]; });
      made = MadeFor(first, Op::kAllGather, first.attrs, {Joined(shards, dim)}, JoinedInfo(parts, dim));
    } else {
      made = MadeFor(first, Op::kConcat, {{"dim", dim}, {"packed", 0}}, parts, JoinedInfo(parts, dim));
    }
    return joined_[keys] = Var(made, 0);
  }

  // Makes slices of `whole` take the place of the values that are joined in it.
  void Cut(const Var& whole, const std::vector<Var>& parts, int dim) {
    int64_t start = 0, local = 0;
    for (const Var& part : parts) {
      const ValueInfo& info = part.node().outputs[size_t(part.index())];
      int64_t length = info.global[size_t(dim)];
      Attrs attrs{{"dim", dim}, {"start", start}, {"length", length}, {"packed", local}};
      instead_.Set(KeyOf(part), Var(MadeFor(part.node(), Op::kSlice, std::move(attrs), {whole}, info), 0));
      start += length, local += info.shape[size_t(dim)];
    }
  }

  void ReplaceShared(const Products& products) {
    const Node& first = *products.nodes[0];
    std::vector<Var> results = ResultsOf(products);
    Var weight = Joined(OperandsOf(products, 1), products.weight_dim);
    Cut(Var(MadeFor(first, Op::kEinsum, first.attrs, {first.inputs[0], weight}, JoinedInfo(results, products.dim)), 0),
        results, products.dim);
  }

  // Lets the new value be computed where the last of the values was that it replaces, or its parts.
  void PutAt(const std::vector<Var>& old, const Var& made) {
    const Node* last = &old[0].node();
    for (const Var& v : old)
      if (position_.at(&v.node()) > position_.at(last)) last = &v.node();
    put_at_[last].push_back(made.node_ptr());
  }

  // Returns how long the products take for each byte of the operands that they share.
  static double TimePerByte(const SharedProducts::Gradients& gradients) {
    double time = 0, bytes = 0;
    for (const SharedProducts::Gradients::Term& term : gradients.terms) {
      for (const auto& product : term.products.nodes) time += NodeTime(*product);
      const Var& shared = term.products.nodes[0]->inputs[1];
      bytes += double(BytesOf(shared.node().outputs[size_t(shared.index())]));
    }
    return time / bytes;
  }
  // Joins the gradients of weights too, before ranks add them.
  void ReplaceGradients(const SharedProducts::Gradients& gradients) {
    int dim = gradients.dim();
    Var all;
    for (const auto& [products, operand_dim, sums] : gradients.terms) {
      const Node& first = *products.nodes[0];
      std::vector<Var> results = ResultsOf(products);
      Var dy = Joined(OperandsOf(products, 0), operand_dim);
      Var term(MadeFor(first, Op::kEinsum, first.attrs, {dy, first.inputs[1]}, JoinedInfo(results, dim)), 0);
      PutAt(results, term);
      all = all.defined() ? Instead(sums, {all, term}, dim) : term;
    }
    for (const std::vector<Var>& sent : gradients.sent) all = Instead(sent, {all}, dim);
    Cut(all, gradients.read(), dim);
  }
  // Returns what one node makes of joined operands, in place of the results of nodes that are alike.
  Var Instead(const std::vector<Var>& results, std::initializer_list<Var> operands, int dim) {
    const Node& first = results[0].node();
    Var made(MadeFor(first, first.op, first.attrs, operands, JoinedInfo(results, dim)), 0);
    PutAt(results, made);
    return made;
  }

  void ReplaceSum(const ProductSum& sum) {
    const Node &first = *sum.products.nodes[0], &root = *sum.root;
    Var dy = Joined(OperandsOf(sum.products, 0), sum.products.dim);
    Var weight = Joined(OperandsOf(sum.products, 1), sum.products.weight_dim);
    Var total(MadeFor(root, Op::kEinsum, first.attrs, {dy, weight}, root.outputs[0]), 0);
    for (const Var& term : sum.rest) total = Var(MadeFor(root, Op::kAdd, {}, {total, term}, root.outputs[0]), 0);
    instead_.Set({&root, 0}, total);
    put_at_[&root].push_back(total.node_ptr());
  }

  // Returns the program with the new nodes, each after what it reads. Returns the old program if there is no such
  // order.
  LocalProgram Rebuilt() {
    for (const auto& node : program_.graph.nodes) {
      Place(node);
      if (auto it = put_at_.find(node.get()); it != put_at_.end())
        for (const auto& made : it->second) Place(made);
    }
    if (cyclic_) return program_;
    Graph combined = std::move(result_);
    CarryNames(program_.graph, combined, [this](const Var& v) { return Now(v); });
    return {RemoveDead(combined), program_.mesh, program_.inlined};
  }
  Var Now(const Var& old) {
    Var v = instead_.Now(old);
    return Var(Place(v.node_ptr()), v.index());
  }
  std::shared_ptr<Node> Place(const std::shared_ptr<Node>& node) {
    auto [it, is_new] = placed_.emplace(node.get(), nullptr);
    if (!is_new) {
      cyclic_ |= !it->second;
      return cyclic_ ? node : it->second;
    }
    absl::InlinedVector<Var, 3> inputs;
    for (const Var& in : node->inputs) inputs.push_back(Now(in));
    std::shared_ptr<Node> now = node;
    if (inputs != node->inputs) {
      now = std::make_shared<Node>(*node);
      now->inputs = std::move(inputs);
    }
    result_.nodes.push_back(now);
    return placed_[node.get()] = now;
  }

  const LocalProgram& program_;
  SharedProducts products_;
  std::map<std::vector<ValueKey>, Var> joined_;
  absl::flat_hash_map<const Node*, size_t> position_;
  Replacements instead_;
  absl::flat_hash_map<const Node*, std::vector<std::shared_ptr<Node>>> put_at_;  // by a node: what is placed after it
  // By a node: what is placed for it; null while what it reads is being placed.
  absl::flat_hash_map<const Node*, std::shared_ptr<Node>> placed_;
  bool cyclic_ = false;  // the gradient of one product depends on that of another that it would be joined with
  Graph result_;
};

}  // namespace

LocalProgram Combine(const LocalProgram& program, const KernelTable& kernels, const CombineOptions& options) {
  LocalProgram combined = Combiner(program, kernels).Run(options);
  if (VerifiesPasses()) VerifyLocal(combined.graph, combined.mesh);
  return combined;
}

}  // namespace weft
