#include "weft/kernels/common/einsum_labels.h"

#include "weft/core/ops/equation.h"

namespace weft {
namespace {

struct Label {
  char name;
  bool in_a = false, in_b = false, in_out = false;
  int64_t extent = 0, a = 0, b = 0, out = 0;  // strides
};
using Labels = absl::InlinedVector<Label, 12>;

Label& Find(Labels& labels, char name) {
  for (Label& label : labels)
    if (label.name == name) return label;
  labels.push_back({.name = name});
  return labels.back();
}

// Returns the labels of an equation such as "btc,cd->btd": those of the output in order, then those of the operands.
Labels Parse(const Equation& eq, const TensorView& a, const TensorView& b, const TensorView& out) {
  Labels labels;
  auto each = [&](std::string_view names, const TensorView& view, bool Label::*in, int64_t Label::*stride) {
    for (int d = 0; d < int(names.size()); d++) {
      Label& label = Find(labels, names[size_t(d)]);
      label.*in = true;
      label.*stride = view.dim(d).stride;
      label.extent = view.dim(d).extent;
    }
  };
  each(eq.out, out, &Label::in_out, &Label::out);
  each(eq.a, a, &Label::in_a, &Label::a);
  each(eq.b, b, &Label::in_b, &Label::b);
  return labels;
}

// Sorts the contracted labels in the memory order of the larger operand. The smaller one is packed if its order
// differs. Output labels keep their order.
void SortTerms(Labels& labels, bool by_a) {
  auto before = [&](const Label& x, const Label& y) {
    if (x.in_out || y.in_out) return x.in_out && !y.in_out;
    return by_a ? x.a > y.a : x.b > y.b;
  };
  // A stable insertion sort, because std::stable_sort allocates a buffer on the heap.
  for (size_t i = 1; i < labels.size(); i++)
    for (size_t j = i; j > 0 && before(labels[j], labels[j - 1]); j--) std::swap(labels[j], labels[j - 1]);
}

}  // namespace

EinsumLabels::EinsumLabels(const KernelCall& call) {
  const TensorView &a = call.in[0], &b = call.in[1];
  Labels labels = Parse(Equation(call.attrs->Text("eq")), a, b, call.out[0]);
  // The innermost output dim with an extent other than 1 decides which operand supplies the columns.
  for (const Label& label : labels)
    if (label.in_out && label.extent != 1) swapped = label.in_a && !label.in_b;
  SortTerms(labels, a.NumElements() >= b.NumElements());
  for (Label& label : labels) {
    if (swapped) {
      std::swap(label.a, label.b);
      std::swap(label.in_a, label.in_b);
    }
    if (label.in_out) {
      AddOutput(label.extent, {label.out, label.a, label.b}, label.in_a, label.in_b);
    } else {
      k *= label.extent;
      terms.Add(label.extent, {label.a, label.b});
    }
  }
  for (Nest* nest : {&batches, &rows, &columns, &terms, &outputs}) nest->Collapse();
}

void EinsumLabels::AddOutput(int64_t extent, const Offsets& stride, bool in_a, bool in_b) {
  outputs.Add(extent, stride);
  if (in_a && in_b) {
    batch *= extent;
    batches.Add(extent, stride);
  } else if (in_a) {
    m *= extent;
    rows.Add(extent, {stride[0], stride[1]});
  } else {
    n *= extent;
    columns.Add(extent, {stride[0], stride[2]});
  }
}

}  // namespace weft
