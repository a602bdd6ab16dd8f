#include "weft/core/passes/parts.h"

#include <algorithm>
#include <vector>

#include "weft/core/ir/storage.h"
#include "weft/core/ops/structural.h"

namespace weft {
namespace {

class PartFinder {
 public:
  PartFinder(const Graph& graph, const KernelTable& kernels) : graph_(graph), kernels_(kernels) {
    for (const auto& node : graph.nodes)
      for (const Var& in : node->inputs) {
        Uses& uses = uses_[KeyOf(in)];
        uses.all++;
        uses.whole += !TakesSlices(*node);
        uses.views += !TakesSlices(*node) && !CanBeRows(*node, kernels_);
        uses.concats += node->op == Op::kConcat;
        if (node->op == Op::kSlice && IsPacked(node->attrs)) uses.slices.push_back(RangeOf(*node));
      }
    for (auto* list : {&graph.outputs, &graph.writes})
      for (const NamedValue& named : *list) uses_[KeyOf(named.value)].names++;
  }

  Parts Run() {
    for (const auto& node : graph_.nodes) {
      if (!IsPacked(node->attrs))
        FindOver(*node);
      else if (node->op == Op::kSlice ? CanCut(node) : CanJoin(node))
        (node->op == Op::kSlice ? parts_.slices : parts_.joins).insert(node.get());
    }
    return std::move(parts_);
  }

 private:
  // The elements of a dim that a packed slice has of a rank's part.
  struct Range {
    int64_t dim, begin, end;
    bool Meets(const Range& o) const { return dim != o.dim || (begin < o.end && o.begin < end); }
  };
  static Range RangeOf(const Node& slice) {
    int64_t dim = slice.attrs.Int("dim"), begin = slice.attrs.Int("packed");
    return {dim, begin, begin + slice.outputs[0].shape[size_t(dim)]};
  }
  struct Uses {
    int all = 0, whole = 0, names = 0;     // readers, those that take no slices, and outputs and writes
    int views = 0;                         // readers that take no slices and are no kernels with results of their own
    int concats = 0;                       // readers
    absl::InlinedVector<Range, 3> slices;  // of the packed slices that read it
  };
  const Uses& UsesOf(const Var& v) const {
    static const Uses none;
    auto it = uses_.find(KeyOf(v));
    return it == uses_.end() ? none : it->second;
  }
  bool TakesSlices(const Node& node) const {
    return !IsAlias(node) && kernels_.Has(node.op) && kernels_.Row(node.op).slices;
  }
  // Whether the slice is of memory that the plan gives a value. An entry of the State has an address of its own, and an
  // alias has other readers. Rows are no different from a tensor of their own, so any kernel reads them. But a concat
  // may want them in its own memory.
  bool CanCut(const std::shared_ptr<Node>& slice) const {
    const Node& whole = slice->inputs[0].node();
    const Uses& uses = UsesOf(Var(slice, 0));
    bool rows = AreRows(slice->outputs[0].shape, slice->attrs.Int("dim")) && uses.concats == 0 && uses.views == 0;
    return (rows || uses.whole == 0) && uses.names == 0 && whole.op != Op::kLeaf && whole.op != Op::kBroadcast &&
           !IsAlias(whole);
  }
  // Besides the concat all readers of its operands take slices, unless the operands lie one after the other in it.
  bool CanJoin(const std::shared_ptr<Node>& concat) const {
    bool rows = AreRows(concat->outputs[0].shape, concat->attrs.Int("dim"));
    return UsesOf(Var(concat, 0)).names == 0 && std::ranges::all_of(concat->inputs, [&](const Var& part) {
             const Uses& uses = UsesOf(part);
             bool fits = rows ? CanBeRows(part.node(), kernels_) && uses.concats == 1
                              : TakesSlices(part.node()) && uses.whole == 1;
             return fits && uses.names == 0;
           });
  }

  // Finds the results that a kernel may write over slices, because it works in place and nothing else reads these.
  void FindOver(const Node& node) {
    if (!TakesSlices(node) || !kernels_.Row(node.op).in_place) return;
    size_t most = std::min({node.inputs.size(), node.outputs.size(), size_t(kernels_.Row(node.op).in_place_outputs)});
    for (size_t k = 0; k < most; k++) {
      const Var& in = node.inputs[k];
      auto made = uses_.find({&node, int(k)});
      bool fits = in.shape() == node.outputs[k].shape && in.dtype() == node.outputs[k].dtype &&
                  (made == uses_.end() || (made->second.whole == 0 && made->second.names == 0));
      if (fits && parts_.slices.contains(&in.node()) && IsReadOnce(in)) parts_.over.insert({{&node, int(k)}, in});
    }
  }
  // Whether one kernel reads the elements of a slice: all readers of its operand are slices of different elements.
  bool IsReadOnce(const Var& slice) const {
    const Uses& whole = UsesOf(slice.node().inputs[0]);
    Range range = RangeOf(slice.node());
    return UsesOf(slice).all == 1 && whole.names == 0 && whole.all == int(whole.slices.size()) &&
           std::ranges::count_if(whole.slices, [&](const Range& other) { return other.Meets(range); }) == 1;
  }

  const Graph& graph_;
  const KernelTable& kernels_;
  absl::flat_hash_map<ValueKey, Uses> uses_;
  Parts parts_;
};

}  // namespace

bool AreRows(const Shape& shape, int64_t dim) {
  return std::all_of(shape.begin(), shape.begin() + dim, [](int64_t n) { return n == 1; });
}

bool CanBeRows(const Node& node, const KernelTable& kernels) {
  bool view = IsAlias(node) || node.op == Op::kBroadcast || (node.op == Op::kSlice && IsPacked(node.attrs));
  return !view && node.op != Op::kLeaf && !IsShapeOnly(node) && kernels.Has(node.op);
}

Parts FindParts(const Graph& graph, const KernelTable& kernels) {
  bool any = std::ranges::any_of(graph.nodes, [](const auto& node) {
    return (node->op == Op::kSlice || node->op == Op::kConcat) && IsPacked(node->attrs);
  });
  return any ? PartFinder(graph, kernels).Run() : Parts();
}

}  // namespace weft
