#include "weft/core/compile/plan_values.h"

#include <algorithm>

#include "weft/core/ir/collective_row.h"

namespace weft {

PlanValues::PlanValues(const Graph& graph, const Runtime& runtime)
    : graph_(graph), runtime_(runtime), parts_(FindParts(graph, runtime.kernels())) {
  Number();
  FindStridedBroadcasts();
  FindRoots();
  FindUses();
}

PlannedView PlanValues::ViewOf(int id) const {
  const PlanValue& value = at(id);
  return {at(value.root).place, value.view, value.within};
}

bool PlanValues::NeedsNoStep(const Node& node) const {
  return node.op == Op::kLeaf || IsShapeOnly(node) || IsView(node) || IsJoined(node);
}

void PlanValues::Number() {
  size_t count = 0;
  for (const auto& node : graph_.nodes) count += node->outputs.size();
  first_.reserve(graph_.nodes.size());
  values_.reserve(count);  // values are large: moving them as the vector grew took a third of MakePlan
  for (int i = 0; i < int(graph_.nodes.size()); i++) {
    const Node& node = *graph_.nodes[size_t(i)];
    first_[&node] = int(values_.size());
    for (int k = 0; k < int(node.outputs.size()); k++) {
      PlanValue& value = values_.emplace_back(PlanValue{&node, k, i, int(values_.size())});
      value.view = runtime_.View(node.outputs[size_t(k)], nullptr);
      if (node.op == Op::kLeaf) value.place = {Place::kEntry, 0, node.attrs.Text("name")};
    }
  }
}

// A broadcast is a view with stride 0 if every reader accepts one.
void PlanValues::FindStridedBroadcasts() {
  for (const auto& node : graph_.nodes)
    if (node->op == Op::kBroadcast) strided_.insert(node.get());
  for (auto* list : {&graph_.outputs, &graph_.writes})
    for (const NamedValue& named : *list) strided_.erase(&named.value.node());
  for (auto it = graph_.nodes.rbegin(); it != graph_.nodes.rend(); ++it) {
    const Node& reader = **it;
    bool accepts = reader.op == Op::kBroadcast ? strided_.contains(&reader)
                                               : !IsAlias(reader) && runtime_.kernels().Has(reader.op) &&
                                                     runtime_.kernels().Row(reader.op).any_strides;
    if (accepts) continue;
    for (const Var& in : reader.inputs) strided_.erase(&in.node());
  }
}

bool PlanValues::IsView(const Node& node) const {
  return IsAlias(node) || strided_.contains(&node) || parts_.slices.contains(&node);
}

// Makes `part` a view of `whole`, from element `start` of dim `dim` on.
void PlanValues::MakePart(PlanValue& part, const PlanValue& whole, int dim, int64_t start) const {
  part.root = whole.root;
  part.within = whole.within + size_t(start * whole.view.dim(dim).stride) * SizeOf(part.view.dtype);
  for (int d = 0; d < part.view.rank; d++) part.view.dims[size_t(d)].stride = whole.view.dim(d).stride;
}

void PlanValues::JoinOperands(const PlanValue& whole) {
  int64_t start = 0;
  int dim = int(whole.node->attrs.Int("dim"));
  for (const Var& in : whole.node->inputs) {
    MakePart(At(in), whole, dim, start);
    start += in.dim(dim);
  }
}

void PlanValues::MakeView(PlanValue& value) {
  const Node& node = *value.node;
  const PlanValue& source = At(node.inputs[0]);
  if (node.op == Op::kSlice) return MakePart(value, source, int(node.attrs.Int("dim")), node.attrs.Int("packed"));
  value.root = source.root;
  value.within = source.within;
  if (IsAlias(node)) return;
  // All dims keep their strides, and the new one has stride 0.
  int dim = int(node.attrs.Int("dim"));
  for (int d = 0; d < value.view.rank; d++)
    value.view.dims[size_t(d)].stride = d == dim ? 0 : source.view.dim(d < dim ? d : d - 1).stride;
}

void PlanValues::FindRoots() {
  // A value that is joined from others comes before these, as they may be joined themselves.
  for (auto value = values_.rbegin(); value != values_.rend(); ++value)
    if (IsJoined(*value->node)) JoinOperands(*value);
  for (PlanValue& value : values_)
    if (IsView(*value.node)) MakeView(value);
  for (const auto& [result, slice] : parts_.over) MakePart(at(IdOf(*result.first, result.second)), At(slice), 0, 0);
}

// Notes that kernel i reads the value, and what it is a view of.
void PlanValues::ReadBy(PlanValue& value, int i) {
  value.first_kernel = std::min(value.first_kernel, i);
  if (IsView(*value.node)) return ReadBy(At(value.node->inputs[0]), i);
  if (!IsJoined(*value.node)) return;
  for (const Var& part : value.node->inputs) ReadBy(At(part), i);
}

void PlanValues::FindUses() {
  for (int i = 0; i < int(graph_.nodes.size()); i++) {
    const Node& node = *graph_.nodes[size_t(i)];
    for (const Var& in : node.inputs) {
      if (!IsView(node) && !IsJoined(node) && !IsCollective(node.op)) ReadBy(At(in), i);
      RootOf(in).last_use = i;
    }
  }
  for (auto* list : {&graph_.outputs, &graph_.writes})
    for (const NamedValue& named : *list) RootOf(named.value).last_use = int(graph_.nodes.size());
  for (PlanValue& value : values_) value.last_use = std::max(value.last_use, value.step);
}

}  // namespace weft
