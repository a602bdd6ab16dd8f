#include "weft/core/passes/combine/shared_products.h"

#include <algorithm>

#include "weft/core/base/shard.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/storage.h"
#include "weft/core/ops/equation.h"

namespace weft {
namespace {

constexpr int kNoDim = -1;

const ValueInfo& InfoOf(const Var& v) { return v.node().outputs[size_t(v.index())]; }

// Returns the name of the parameter that a weight is, or is cast or gathered from along other dims than `dim`; "" if
// it is computed otherwise.
std::string ParameterOf(const Var& weight, int dim) {
  const Node* node = &weight.node();
  while (node->op == Op::kCast || (node->op == Op::kAllGather && node->attrs.Int("dim") != dim))
    node = &node->inputs[0].node();
  return node->op == Op::kLeaf && node->attrs.IntOr("parameter", 0) ? node->attrs.Text("name") : "";
}
// Orders the products by their weights, and returns the names of those; empty if some have none or share one.
std::vector<std::string> Order(Products& products) {
  std::map<std::string, std::shared_ptr<Node>> by_name;
  for (const auto& node : products.nodes) by_name[ParameterOf(node->inputs[1], products.weight_dim)] = node;
  std::vector<std::string> names;
  if (by_name.size() != products.nodes.size() || by_name.size() < 2 || by_name.contains("")) return names;
  products.nodes.clear();
  for (const auto& [name, node] : by_name) {
    names.push_back(name);
    products.nodes.push_back(node);
  }
  return names;
}

bool IsProduct(const Node& node) { return node.op == Op::kEinsum && !ParameterOf(node.inputs[1], kNoDim).empty(); }

// Whether two values differ only in the extent of a dim.
bool Alike(ValueInfo a, const ValueInfo& b, int dim) {
  a.shape[size_t(dim)] = b.shape[size_t(dim)];
  a.global[size_t(dim)] = b.global[size_t(dim)];
  return a.dtype == b.dtype && a.shape == b.shape && a.global == b.global && a.sharding == b.sharding;
}
// Whether a part of these extents begins and ends where a slice may.
bool IsAligned(const ValueInfo& info, int dim) {
  int64_t bytes = int64_t(SizeOf(info.dtype));
  for (size_t d = size_t(dim); d < info.shape.size(); d++) bytes *= info.shape[d];
  return bytes % kSliceAlign == 0;
}

bool IsEven(const ValueInfo& info, int dim, const MeshShape& mesh) {
  int64_t ranks = 1;
  ForEachShard(info.sharding, [&](int axis, int d) { ranks *= d == dim ? mesh.sizes[size_t(axis)] : 1; });
  return info.shape[size_t(dim)] * ranks == info.global[size_t(dim)];
}

bool HaveOneKind(const Products& products) {
  return std::ranges::all_of(products.nodes, [&](const auto& node) { return node->attrs == products.nodes[0]->attrs; });
}
// Sets the dims of products dy[.., n..] and w[k.., n..]. Returns whether they are such products.
bool FindDims(Products& products) {
  Equation eq(products.nodes[0]->attrs.Text("eq"));
  size_t at = eq.b.find_first_not_of(eq.out), in = at < eq.b.size() ? eq.a.find(eq.b[at]) : std::string::npos;
  if (in == std::string::npos || eq.b.substr(at) != eq.a.substr(in)) return false;
  products.weight_dim = int(at), products.dim = int(in);
  return true;
}
}  // namespace

std::vector<Var> OperandsOf(const Products& products, size_t operand) {
  std::vector<Var> values(products.nodes.size());
  std::ranges::transform(products.nodes, values.begin(), [operand](const auto& node) { return node->inputs[operand]; });
  return values;
}
std::vector<Var> ResultsOf(const Products& products) {
  std::vector<Var> values(products.nodes.size());
  std::ranges::transform(products.nodes, values.begin(), [](const auto& node) { return Var(node, 0); });
  return values;
}

ValueInfo JoinedInfo(const std::vector<Var>& parts, int dim) {
  ValueInfo whole = InfoOf(parts[0]);
  for (size_t i = 1; i < parts.size(); i++) {
    whole.shape[size_t(dim)] += InfoOf(parts[i]).shape[size_t(dim)];
    whole.global[size_t(dim)] += InfoOf(parts[i]).global[size_t(dim)];
  }
  return whole;
}

bool Fit(const std::vector<Var>& parts, int dim, const MeshShape& mesh) {
  return std::ranges::all_of(parts, [&](const Var& part) {
    const ValueInfo& info = InfoOf(part);
    return Alike(info, InfoOf(parts[0]), dim) && IsEven(info, dim, mesh) && IsAligned(info, dim);
  });
}

SharedProducts::SharedProducts(const LocalProgram& program, const KernelTable& kernels)
    : program_(program), kernels_(kernels) {
  const Graph& graph = program.graph;
  for (const auto& node : graph.nodes)
    for (const Var& in : node->inputs) readers_[KeyOf(in)].push_back(node);
  for (auto* list : {&graph.outputs, &graph.writes})
    for (const NamedValue& named : *list) readers_[KeyOf(named.value)].push_back(nullptr);
}

std::vector<SharedProducts::Family> SharedProducts::Find() const {
  std::map<Weights, Family> families;
  FindShared(families);
  FindSums(families);
  std::vector<Family> found;
  for (auto& [weights, family] : families)
    if (!family.shared.empty() && !family.sums.empty()) found.push_back(std::move(family));
  return found;
}

const SharedProducts::Readers& SharedProducts::ReadersOf(const Var& v) const {
  static const Readers none;
  auto it = readers_.find(KeyOf(v));
  return it == readers_.end() ? none : it->second;
}
bool SharedProducts::TakesSlices(const Node* node) const {
  return node && !IsAlias(*node) && kernels_.Has(node->op) && kernels_.Row(node->op).slices;
}
bool SharedProducts::AllTakeSlices(const std::vector<Var>& values) const {
  return std::ranges::all_of(values, [&](const Var& v) {
    return std::ranges::all_of(ReadersOf(v), [&](const auto& reader) { return TakesSlices(reader.get()); });
  });
}

// Groups the products that read one value: x[.., k..] and w[k.., n..] give y[.., n..]. They are joined along the
// first n.
void SharedProducts::FindShared(std::map<Weights, Family>& families) const {
  std::vector<Products> groups;
  std::map<std::pair<ValueKey, std::string>, size_t> group_of;
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
    if (!HaveOneKind(products)) continue;
    products.weight_dim = int(at), products.dim = int(out);
    Weights weights = Order(products);
    std::vector<Var> results = ResultsOf(products);
    if (!weights.empty() && Fits(OperandsOf(products, 1), products.weight_dim) && Fits(results, products.dim) &&
        AllTakeSlices(results))
      families[weights].shared.push_back(products);
  }
}

// Finds the sums of products dy[.., n..] and w[k.., n..], which are joined along the first n.
void SharedProducts::FindSums(std::map<Weights, Family>& families) const {
  for (const auto& node : program_.graph.nodes) {
    const Readers& readers = ReadersOf(Var(node, 0));
    bool inner = readers.size() == 1 && readers[0] && readers[0]->op == Op::kAdd;
    if (node->op != Op::kAdd || inner) continue;
    ProductSum sum{.root = node.get()};
    Collect(*node, sum);
    if (sum.products.nodes.size() < 2 || !FindDims(sum.products)) continue;
    Weights weights = Order(sum.products);
    if (!weights.empty() && CanJoin(sum.products)) families[weights].sums.push_back(std::move(sum));
  }
}
// Puts the operands of a tree of adds into products with the equation of the first one, and the rest.
void SharedProducts::Collect(const Node& add, ProductSum& sum) const {
  for (const Var& term : add.inputs) {
    const Node& node = term.node();
    bool once = ReadersOf(term).size() == 1 && term.dtype() == add.outputs[0].dtype;
    if (once && node.op == Op::kAdd) {
      Collect(node, sum);
    } else if (once && IsProduct(node) && (sum.products.nodes.empty() || node.attrs == sum.products.nodes[0]->attrs)) {
      sum.products.nodes.push_back(term.node_ptr());
    } else {
      sum.rest.push_back(term);
    }
  }
}
// Whether the first operands can be made as parts of one value.
bool SharedProducts::CanJoin(const Products& products) const {
  std::vector<Var> parts = OperandsOf(products, 0);
  for (size_t i = 0; i < parts.size(); i++)
    for (size_t j = 0; j < i; j++)
      if (parts[i] == parts[j]) return false;
  return Fits(parts, products.dim) && Fits(OperandsOf(products, 1), products.weight_dim) && AllTakeSlices(parts) &&
         std::ranges::all_of(parts, [&](const Var& dy) { return TakesSlices(&dy.node()); });
}

Products SharedProducts::ProductsOfGradients(const Products& products) const {
  Products gradients;
  for (const auto& product : products.nodes)
    for (const auto& reader : ReadersOf(product->inputs[0]))
      if (reader != product && reader->op == Op::kEinsum && reader->inputs[0] == product->inputs[0])
        gradients.nodes.push_back(reader);
  bool alike =
      gradients.nodes.size() == products.nodes.size() && std::ranges::all_of(gradients.nodes, [&](const auto& node) {
        return node->attrs == gradients.nodes[0]->attrs && node->inputs[1] == gradients.nodes[0]->inputs[1];
      });
  if (!alike) return {};
  Equation eq(gradients.nodes[0]->attrs.Text("eq"));
  std::string joined = eq.a.substr(size_t(products.dim));
  size_t at = eq.out.find(joined);
  if (at == std::string::npos || at + joined.size() != eq.out.size() || eq.b.find(joined[0]) != std::string::npos)
    return {};
  gradients.dim = int(at);
  return gradients;
}
// Returns what ranks make of the values by one collective each, if these are alike; empty if others read the values, or
// the results do not fit.
std::vector<Var> SharedProducts::SentOf(const std::vector<Var>& values, int dim) const {
  std::vector<Var> sent;
  for (const Var& value : values) {
    const Readers& readers = ReadersOf(value);
    bool reduced = readers.size() == 1 && readers[0] && ReducesOverRanks(readers[0]->op) &&
                   readers[0]->attrs.IntOr("dim", kNoDim) != dim;
    if (!reduced ||
        (!sent.empty() && (readers[0]->op != sent[0].node().op || readers[0]->attrs != sent[0].node().attrs)))
      return {};
    sent.emplace_back(readers[0], 0);
  }
  return Fits(sent, dim) ? sent : std::vector<Var>();
}
// Adds the term if each of its results is only added to the sum so far.
bool SharedProducts::Add(Gradients& gradients, Gradients::Term term) const {
  std::vector<Var> sums;
  if (term.products.dim != gradients.dim() || term.sums.size() != gradients.sums().size()) return false;
  for (size_t i = 0; i < term.sums.size(); i++) {
    const Var &result = term.sums[i], &before = gradients.sums()[i];
    const Readers &readers = ReadersOf(result), &others = ReadersOf(before);
    bool added = readers.size() == 1 && others.size() == 1 && readers[0] && readers[0] == others[0] &&
                 readers[0]->op == Op::kAdd && result.dtype() == before.dtype();
    if (!added) return false;
    sums.emplace_back(readers[0], 0);
  }
  if (!Fits(sums, term.products.dim)) return false;
  term.sums = std::move(sums);
  gradients.terms.push_back(std::move(term));
  return true;
}
std::vector<SharedProducts::Gradients> SharedProducts::GradientsOf(const Family& family) const {
  std::vector<Gradients> found;
  for (const ProductSum& sum : family.sums) {
    Products products = ProductsOfGradients(sum.products);
    std::vector<Var> results = ResultsOf(products);
    if (products.nodes.empty() || !Fits(results, products.dim)) continue;
    Gradients::Term term{std::move(products), sum.products.dim, std::move(results)};
    if (std::ranges::none_of(found, [&](Gradients& gradients) { return Add(gradients, term); }))
      found.push_back({.terms = {std::move(term)}});
  }
  for (Gradients& gradients : found)
    for (std::vector<Var> sent = gradients.sums(); !(sent = SentOf(sent, gradients.dim())).empty();)
      gradients.sent.push_back(sent);
  std::erase_if(found, [this](const Gradients& gradients) { return !AllTakeSlices(gradients.read()); });
  return found;
}

}  // namespace weft
