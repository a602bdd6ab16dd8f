#include "kernels/cpu/einsum_plan.h"

#include <fmt/format.h>

#include "core/ops/einsum.h"

namespace weft::cpu {
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

// "btc,cd->btd" to labels, in the order of the output, then of the operands.
Labels Parse(const std::string& eq, const TensorView& a, const TensorView& b, const TensorView& out) {
  size_t comma = eq.find(','), arrow = eq.find("->");
  WEFT_CHECK(comma != std::string::npos && arrow != std::string::npos, fmt::format("einsum: cannot read \"{}\"", eq));
  std::string_view text = eq;
  Labels labels;
  auto each = [&](std::string_view names, const TensorView& view, bool Label::*in, int64_t Label::*stride) {
    for (int d = 0; d < int(names.size()); d++) {
      Label& label = Find(labels, names[size_t(d)]);
      label.*in = true;
      label.*stride = view.dim(d).stride;
      label.extent = view.dim(d).extent;
    }
  };
  each(text.substr(arrow + 2), out, &Label::in_out, &Label::out);
  each(text.substr(0, comma), a, &Label::in_a, &Label::a);
  each(text.substr(comma + 1, arrow - comma - 1), b, &Label::in_b, &Label::b);
  return labels;
}

// Walked as one loop at most each, and one of them contiguous.
bool IsDirect(const Nest& rows, const Nest& columns) {
  return rows.rank <= 1 && columns.rank <= 1 &&
         (rows.rank == 0 || columns.rank == 0 || rows.strides[0][0] == 1 || columns.strides[0][0] == 1);
}

}  // namespace

EinsumPlan::EinsumPlan(const KernelCall& call) {
  TensorView a = call.in[0], b = call.in[1];
  const TensorView& out = call.out[0];
  Labels labels = Parse(call.attrs->Text("eq"), a, b, out);
  // The innermost output dim that is walked at all decides which operand gives the columns.
  for (const Label& label : labels)
    if (label.in_out && label.extent != 1) swapped = label.in_a && !label.in_b;
  if (swapped)
    for (Label& label : labels) {
      std::swap(label.a, label.b);
      std::swap(label.in_a, label.in_b);
    }
  // The terms in the order of the larger operand: the other one is packed if they disagree.
  if (swapped) std::swap(a, b);
  bool by_a = a.NumElements() >= b.NumElements();
  auto before = [&](const Label& x, const Label& y) {
    if (x.in_out || y.in_out) return x.in_out && !y.in_out;
    return by_a ? x.a > y.a : x.b > y.b;
  };
  // A stable insertion sort: std::stable_sort allocates, and this runs at every step.
  for (auto it = labels.begin(); it != labels.end(); ++it) std::rotate(std::upper_bound(labels.begin(), it, *it, before), it, it + 1);
  for (const Label& label : labels) {
    int64_t e = label.extent;
    if (!label.in_out) {
      k *= e;
      k_of_a.Add(e, {label.a});
      k_of_b.Add(e, {label.b});
      terms.Add(e, {label.a, label.b});
      continue;
    }
    outputs.Add(e, {label.out, label.a, label.b});
    if (label.in_a && label.in_b) {
      batch *= e;
      batches.Add(e, {label.out, label.a, label.b});
    } else if (label.in_a) {
      m *= e;
      m_of_a.Add(e, {label.a});
      m_of_out.Add(e, {label.out});
    } else {
      n *= e;
      n_of_b.Add(e, {label.b});
      n_of_out.Add(e, {label.out});
    }
  }
  for (Nest* nest : {&batches, &m_of_a, &k_of_a, &k_of_b, &n_of_b, &m_of_out, &n_of_out, &outputs, &terms}) nest->Collapse();
  bool narrow = SizeOf(out.dtype) == 2;  // 16-bit operands are widened while packing
  a_direct = !narrow && IsDirect(m_of_a, k_of_a);
  b_direct = !narrow && IsDirect(k_of_b, n_of_b);
  out_direct = !narrow && m_of_out.rank <= 1 && n_of_out.rank <= 1 && (n_of_out.rank == 0 || n_of_out.strides[0][0] == 1);
  ChooseBlocks();
}

void EinsumPlan::ChooseBlocks() {
  tiny = batch > 1 && m * n * k < 512;
  block_m = std::max<int64_t>(m, 1);
  block_n = std::max<int64_t>(n, 1);
  if (a_direct && b_direct && out_direct) {
    if (batch >= 16) return;
    if (m >= 512) block_m = 256;
    else if (n >= 512) block_n = 256;
  } else {
    block_m = std::min<int64_t>(block_m, 256);
    block_n = std::min<int64_t>(block_n, 512);
  }
}

}  // namespace weft::cpu
