#include "weft/core/ir/record.h"

#include <fmt/format.h>

#include <map>

#include "weft/core/ir/checks.h"
#include "weft/core/ir/product_flops.h"

namespace weft {

const OpTable& Ops() {
  static const OpTable table = [] {
    OpTable t;
    for (auto* family : {RegisterElementwise, RegisterLeaf, RegisterEinsum, RegisterReduce, RegisterStructural,
                         RegisterRandom, RegisterEmbedding, RegisterIndexing, RegisterSort, RegisterNorm,
                         RegisterAttention, RegisterLoss, RegisterOptimizer, RegisterFused, RegisterCollective})
      family(t);
    for (int i = 0; i < kNumOps; i++)
      WEFT_CHECK(t[size_t(i)].op == Op(i), fmt::format("op {} has no record", Name(Op(i))));
    return t;
  }();
  return table;
}

std::string Letters(int n, char first) {
  std::string s;
  for (int i = 0; i < n; i++) s += char(first + i);
  return s;
}

bool GradCall::Widens(int i) const {
  DType own = in(i).dtype();
  return parameter_sums && in(i).node().parameter_chain && *parameter_sums != own && AccumulateType(own) != own;
}

void AddOutput(Node& node, DType dtype, Shape shape) {
  if (std::string fault = ShapeFault(shape); !fault.empty()) FailAt(node, fault);
  node.outputs.push_back({dtype, std::move(shape), {}, {}});
}

void FailAt(const Node& node, const std::string& message) {
  std::string scope = node.scope && !node.scope->empty() ? " in " + *node.scope : "";
  Fail(fmt::format("{} at {}{}: {}", Name(node.op), ToString(node.loc), scope, message));
}

void CheckRank(const Node& node, int operand, int rank) {
  const Var& x = node.inputs[size_t(operand)];
  if (x.rank() != rank)
    FailAt(node, fmt::format("expected operand {} of {} dims, got {}; split, merge or unsqueeze dims", operand, rank,
                             ToString(x)));
}

void CheckSame(const Node& node, int a, int b) {
  const Var &x = node.inputs[size_t(a)], &y = node.inputs[size_t(b)];
  if (x.shape() != y.shape() || x.dtype() != y.dtype())
    FailAt(node,
           fmt::format(
               "expected operands {} and {} of one dtype and shape, got {} and {}; {}", a, b, ToString(x), ToString(y),
               x.shape() == y.shape() ? "cast one of them" : "dims must be equal, or 1 where the op broadcasts"));
}

void CheckShardDims(const Node& node, const Shape& shape, const Sharding& placement) {
  for (int a = 0; a < placement.num_axes(); a++)
    if (placement[a].kind == Placement::kShard && (placement[a].dim < 0 || size_t(placement[a].dim) >= shape.size()))
      FailAt(node, fmt::format("placement {} shards dim {} of {}; expected a dim in [0, {})", ToString(placement),
                               placement[a].dim, ToString(shape), shape.size()));
}

double ProductFlops(const Node& node) {
  return ProductFlops(node, [&](size_t i, size_t d) { return node.inputs[i].shape()[d]; });
}

double ProductFlops(const Node& node, absl::FunctionRef<int64_t(size_t, size_t)> extent) {
  const OpRecord& record = Record(node.op);
  if (!record.products) return 0;
  Dims dims = record.dims(node);
  std::map<char, double> extents;
  for (size_t i = 0; i < dims.in.size(); i++)
    for (size_t d = 0; d < dims.in[i].size(); d++) extents[dims.in[i][d]] = double(extent(i, d));
  for (const Dims::Group& group : dims.groups) extents.erase(group.outer);  // already counted in `merged`
  double products = record.products;
  if (!dims.products_of.empty()) {
    products = 0;
    for (const Dims::ProductsOf& p : dims.products_of) products += p.count * extents.at(p.label);
    for (const Dims::ProductsOf& p : dims.products_of) extents.erase(p.label);
  }
  double flops = 2.0 * products;
  for (auto& [label, of_label] : extents) flops *= of_label;
  return flops;
}

}  // namespace weft
