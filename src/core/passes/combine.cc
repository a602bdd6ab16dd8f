#include "weft/core/passes/combine.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/base/shard.h"
#include "weft/core/ir/storage.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/equation.h"

namespace weft {
namespace {

using Key = std::pair<const Node*, int>;  // an output of a node
Key KeyOf(const Var& v) { return {&v.node(), v.index()}; }
const ValueInfo& InfoOf(const Var& v) { return v.node().outputs[size_t(v.index())]; }

// Products of one kind, in the order of the names of their weights, and the dims along which their parts are joined.
struct Products {
  std::vector<std::shared_ptr<Node>> nodes;
  int weight_dim = 0;
  int dim = 0;  // of the result of Shared products, and of the first operand of those of a Sum
};
// A sum of products, and what else it adds.
struct Sum {
  Products products;
  const Node* root = nullptr;  // the last add
  std::vector<Var> rest;
};

std::vector<Var> OperandsOf(const Products& products, size_t operand) {
  std::vector<Var> values;
  for (const auto& node : products.nodes) values.push_back(node->inputs[operand]);
  return values;
}
std::vector<Var> ResultsOf(const Products& products) {
  std::vector<Var> values;
  for (const auto& node : products.nodes) values.emplace_back(node, 0);
  return values;
}

// Which values may be joined along a dim: those that agree in all else, whose shards are even, and whose parts are
// aligned.
class Joining {
 public:
  explicit Joining(const MeshShape& mesh) : mesh_(mesh) {}

  bool Fits(const std::vector<const ValueInfo*>& parts, int dim) const {
    return std::ranges::all_of(parts, [&](const ValueInfo* part) {
      ValueInfo other = *part;
      other.shape[size_t(dim)] = parts[0]->shape[size_t(dim)];
      other.global[size_t(dim)] = parts[0]->global[size_t(dim)];
      bool alike = other.dtype == parts[0]->dtype && other.shape == parts[0]->shape &&
                   other.global == parts[0]->global && other.sharding == parts[0]->sharding;
      return alike && IsEven(*part, dim) && IsAligned(*part, dim);
    });
  }

  static ValueInfo Joined(const std::vector<const ValueInfo*>& parts, int dim) {
    ValueInfo whole = *parts[0];
    for (size_t i = 1; i < parts.size(); i++) {
      whole.shape[size_t(dim)] += parts[i]->shape[size_t(dim)];
      whole.global[size_t(dim)] += parts[i]->global[size_t(dim)];
    }
    return whole;
  }

 private:
  bool IsEven(const ValueInfo& info, int dim) const {
    int64_t ranks = 1;
    ForEachShard(info.sharding, [&](int axis, int d) { ranks *= d == dim ? mesh_.sizes[size_t(axis)] : 1; });
    return info.shape[size_t(dim)] * ranks == info.global[size_t(dim)];
  }
  static bool IsAligned(const ValueInfo& info, int dim) {
    int64_t bytes = int64_t(SizeOf(info.dtype));
    for (size_t d = size_t(dim); d < info.shape.size(); d++) bytes *= info.shape[d];
    return bytes % kSliceAlign == 0;
  }

  const MeshShape& mesh_;
};

class Combiner {
 public:
  Combiner(const LocalProgram& program, const KernelTable& kernels)
      : program_(program), kernels_(kernels), joining_(program.mesh) {
    const Graph& graph = program.graph;
    for (const auto& node : graph.nodes)
      for (const Var& in : node->inputs) readers_[KeyOf(in)].push_back(node.get());
    for (auto* list : {&graph.outputs, &graph.writes})
      for (const NamedValue& named : *list) readers_[KeyOf(named.value)].push_back(nullptr);
  }

  LocalProgram Run() {
    FindShared();
    FindSums();
    bool any = false;
    for (const auto& [weights, shared] : shared_) {
      auto sums = sums_.find(weights);
      if (sums == sums_.end()) continue;
      for (const Products& products : shared) ReplaceShared(products);
      for (const Sum& sum : sums->second) ReplaceSum(sum);
      any = true;
    }
    return any ? Rebuilt() : program_;
  }

 private:
  using Weights = std::vector<std::string>;  // the names of the entries that products multiply by
  static constexpr int kNoDim = -1;
  using Readers = absl::InlinedVector<const Node*, 2>;

  const Readers& ReadersOf(const Var& v) const {
    static const Readers none;
    auto it = readers_.find(KeyOf(v));
    return it == readers_.end() ? none : it->second;
  }
  bool TakesSlices(const Node* node) const {
    return node && !IsAlias(*node) && kernels_.Has(node->op) && kernels_.Row(node->op).slices;
  }
  bool AllTakeSlices(const Var& v) const {
    return std::ranges::all_of(ReadersOf(v), [&](const Node* reader) { return TakesSlices(reader); });
  }

  // Returns the name of the parameter that a weight is, or is cast or gathered from along other dims than `dim`; "" if
  // it is computed otherwise.
  static std::string ParameterOf(const Var& weight, int dim) {
    const Node* node = &weight.node();
    while (node->op == Op::kCast || (node->op == Op::kAllGather && node->attrs.Int("dim") != dim))
      node = &node->inputs[0].node();
    return node->op == Op::kLeaf && node->attrs.IntOr("parameter", 0) ? node->attrs.Text("name") : "";
  }
  // Orders the products by their weights, and returns the names of those; empty if some have none or share one.
  static Weights Order(Products& products) {
    std::map<std::string, std::shared_ptr<Node>> by_name;
    for (const auto& node : products.nodes) by_name[ParameterOf(node->inputs[1], products.weight_dim)] = node;
    Weights names;
    if (by_name.size() != products.nodes.size() || by_name.size() < 2 || by_name.contains("")) return names;
    products.nodes.clear();
    for (const auto& [name, node] : by_name) {
      names.push_back(name);
      products.nodes.push_back(node);
    }
    return names;
  }

  bool Fits(const std::vector<Var>& parts, int dim) const {
    std::vector<const ValueInfo*> infos;
    for (const Var& part : parts) infos.push_back(&InfoOf(part));
    return joining_.Fits(infos, dim);
  }

  static bool IsProduct(const Node& node) {
    return node.op == Op::kEinsum && !ParameterOf(node.inputs[1], kNoDim).empty();
  }

  // Groups the products that read one value: x[.., k..] and w[k.., n..] give y[.., n..]. They are joined along the
  // first n.
  void FindShared() {
    std::vector<Products> groups;
    std::map<std::pair<Key, std::string>, size_t> group_of;
    for (const auto& node : program_.graph.nodes) {
      if (!IsProduct(*node) || node->phase != Phase::kForward) continue;
      auto [it, is_new] = group_of.emplace(std::pair(KeyOf(node->inputs[0]), node->attrs.Text("eq")), groups.size());
      if (is_new) groups.emplace_back();
      groups[it->second].nodes.push_back(node);
    }
    for (Products& products : groups) {
      Equation eq(products.nodes[0]->attrs.Text("eq"));
      size_t at = eq.b.find_first_not_of(eq.a), out = at < eq.b.size() ? eq.out.find(eq.b[at]) : std::string::npos;
      if (products.nodes.size() < 2 || out == std::string::npos || eq.b.substr(at) != eq.out.substr(out)) continue;
      products.weight_dim = int(at), products.dim = int(out);
      Weights weights = Order(products);
      std::vector<Var> results = ResultsOf(products);
      if (!weights.empty() && Fits(OperandsOf(products, 1), products.weight_dim) && Fits(results, products.dim) &&
          std::ranges::all_of(results, [&](const Var& y) { return AllTakeSlices(y); }))
        shared_[weights].push_back(products);
    }
  }

  // Finds the sums of products dy[.., n..] and w[k.., n..], which are joined along the first n.
  void FindSums() {
    for (const auto& node : program_.graph.nodes) {
      const Readers& readers = ReadersOf(Var(node, 0));
      bool inner = readers.size() == 1 && readers[0] && readers[0]->op == Op::kAdd;
      if (node->op != Op::kAdd || inner) continue;
      Sum sum{.root = node.get()};
      Collect(*node, sum);
      if (sum.products.nodes.size() < 2 || !FindDims(sum.products)) continue;
      Weights weights = Order(sum.products);
      if (!weights.empty() && CanJoin(sum.products)) sums_[weights].push_back(std::move(sum));
    }
  }
  // Puts the operands of a tree of adds into products with the equation of the first one, and the rest.
  void Collect(const Node& add, Sum& sum) const {
    for (const Var& term : add.inputs) {
      const Node& node = term.node();
      bool once = ReadersOf(term).size() == 1 && term.dtype() == add.outputs[0].dtype;
      if (once && node.op == Op::kAdd) {
        Collect(node, sum);
      } else if (once && IsProduct(node) &&
                 (sum.products.nodes.empty() || node.attrs == sum.products.nodes[0]->attrs)) {
        sum.products.nodes.push_back(term.node_ptr());
      } else {
        sum.rest.push_back(term);
      }
    }
  }
  static bool FindDims(Products& products) {
    Equation eq(products.nodes[0]->attrs.Text("eq"));
    size_t at = eq.b.find_first_not_of(eq.out), in = at < eq.b.size() ? eq.a.find(eq.b[at]) : std::string::npos;
    if (in == std::string::npos || eq.b.substr(at) != eq.a.substr(in)) return false;
    products.weight_dim = int(at), products.dim = int(in);
    return true;
  }
  // Whether the first operands can be made as parts of one value.
  bool CanJoin(const Products& products) const {
    std::vector<Var> parts = OperandsOf(products, 0);
    for (size_t i = 0; i < parts.size(); i++)
      for (size_t j = 0; j < i; j++)
        if (parts[i] == parts[j]) return false;
    return Fits(parts, products.dim) && Fits(OperandsOf(products, 1), products.weight_dim) &&
           std::ranges::all_of(parts, [&](const Var& dy) { return TakesSlices(&dy.node()) && AllTakeSlices(dy); });
  }

  // Returns a node on behalf of `origin`.
  static std::shared_ptr<Node> Made(const Node& origin, Op op, Attrs attrs, std::vector<Var> inputs, ValueInfo info) {
    auto node = std::make_shared<Node>();
    node->op = op, node->attrs = std::move(attrs), node->inputs.assign(inputs.begin(), inputs.end());
    node->outputs.push_back(std::move(info));
    node->id = origin.id, node->phase = origin.phase;
    node->scope = origin.scope, node->loc = origin.loc;
    return node;
  }
  static ValueInfo JoinedInfo(const std::vector<Var>& parts, int dim) {
    std::vector<const ValueInfo*> infos;
    for (const Var& part : parts) infos.push_back(&InfoOf(part));
    return Joining::Joined(infos, dim);
  }

  // Returns the parts as one value. Parts that are gathered alike are joined before.
  Var Joined(const std::vector<Var>& parts, int dim) {
    std::vector<Key> keys;
    for (const Var& part : parts) keys.push_back(KeyOf(part));
    auto it = joined_.find(keys);
    if (it != joined_.end()) return it->second;
    const Node& first = parts[0].node();
    bool gathered = std::ranges::all_of(
        parts, [&](const Var& part) { return part.node().op == Op::kAllGather && part.node().attrs == first.attrs; });
    std::shared_ptr<Node> made;
    if (gathered && first.attrs.Int("dim") != dim) {
      std::vector<Var> shards;
      for (const Var& part : parts) shards.push_back(part.node().inputs[0]);
      made = Made(first, Op::kAllGather, first.attrs, {Joined(shards, dim)}, JoinedInfo(parts, dim));
    } else {
      made = Made(first, Op::kConcat, {{"dim", dim}, {"packed", 0}}, parts, JoinedInfo(parts, dim));
    }
    return joined_[keys] = Var(made, 0);
  }

  void ReplaceShared(const Products& products) {
    const Node& first = *products.nodes[0];
    std::vector<Var> results = ResultsOf(products);
    Var weight = Joined(OperandsOf(products, 1), products.weight_dim);
    Var all(Made(first, Op::kEinsum, first.attrs, {first.inputs[0], weight}, JoinedInfo(results, products.dim)), 0);
    int64_t start = 0, local = 0;
    for (const Var& y : results) {
      const ValueInfo& info = InfoOf(y);
      int64_t length = info.global[size_t(products.dim)];
      Attrs attrs{{"dim", products.dim}, {"start", start}, {"length", length}, {"packed", local}};
      instead_[KeyOf(y)] = Var(Made(y.node(), Op::kSlice, std::move(attrs), {all}, info), 0);
      start += length, local += info.shape[size_t(products.dim)];
    }
  }

  void ReplaceSum(const Sum& sum) {
    const Node &first = *sum.products.nodes[0], &root = *sum.root;
    Var dy = Joined(OperandsOf(sum.products, 0), sum.products.dim);
    Var weight = Joined(OperandsOf(sum.products, 1), sum.products.weight_dim);
    Var total(Made(root, Op::kEinsum, first.attrs, {dy, weight}, root.outputs[0]), 0);
    for (const Var& term : sum.rest) total = Var(Made(root, Op::kAdd, {}, {total, term}, root.outputs[0]), 0);
    instead_[{&root, 0}] = total;
  }

  // Returns the program with the new nodes, each after what it reads.
  LocalProgram Rebuilt() {
    for (const auto& node : program_.graph.nodes) Place(node);
    Graph combined = std::move(result_);
    for (auto [from, to] :
         {std::pair{&program_.graph.outputs, &combined.outputs}, {&program_.graph.writes, &combined.writes}})
      for (const NamedValue& named : *from) to->push_back({named.name, Now(named.value)});
    return {RemoveDead(combined), program_.mesh, program_.inlined};
  }
  Var Now(const Var& old) {
    auto it = instead_.find(KeyOf(old));
    const Var& v = it == instead_.end() ? old : it->second;
    return Var(Place(v.node_ptr()), v.index());
  }
  std::shared_ptr<Node> Place(const std::shared_ptr<Node>& node) {
    auto [it, is_new] = placed_.emplace(node.get(), node);
    if (!is_new) return it->second;
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
  const KernelTable& kernels_;
  Joining joining_;
  absl::flat_hash_map<Key, Readers> readers_;  // null: an output or a write
  std::map<Weights, std::vector<Products>> shared_;
  std::map<Weights, std::vector<Sum>> sums_;
  std::map<std::vector<Key>, Var> joined_;
  absl::flat_hash_map<Key, Var> instead_;
  absl::flat_hash_map<const Node*, std::shared_ptr<Node>> placed_;
  Graph result_;
};

}  // namespace

LocalProgram Combine(const LocalProgram& program, const KernelTable& kernels) {
  LocalProgram combined = Combiner(program, kernels).Run();
  if (VerifiesPasses()) VerifyLocal(combined.graph, combined.mesh);
  return combined;
}

}  // namespace weft
