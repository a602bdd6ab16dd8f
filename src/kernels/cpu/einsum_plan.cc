#include "kernels/cpu/einsum_plan.h"

#include <fmt/format.h>

#include "core/ops/einsum.h"
#include "kernels/cpu/gemm_bf16.h"

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

// The terms in the order of the larger operand: the other one is packed if they disagree. Outputs keep their order.
void SortTerms(Labels& labels, bool by_a) {
  auto before = [&](const Label& x, const Label& y) {
    if (x.in_out || y.in_out) return x.in_out && !y.in_out;
    return by_a ? x.a > y.a : x.b > y.b;
  };
  // A stable insertion sort: std::stable_sort takes a buffer from the heap.
  for (size_t i = 1; i < labels.size(); i++)
    for (size_t j = i; j > 0 && before(labels[j], labels[j - 1]); j--) std::swap(labels[j], labels[j - 1]);
}

}  // namespace

EinsumPlan::EinsumPlan(const KernelCall& call) {
  const TensorView &a = call.in[0], &b = call.in[1], &out = call.out[0];
  Labels labels = Parse(call.attrs->Text("eq"), a, b, out);
  // The innermost output dim that is walked at all decides which operand gives the columns.
  for (const Label& label : labels)
    if (label.in_out && label.extent != 1) swapped = label.in_a && !label.in_b;
  SortTerms(labels, a.NumElements() >= b.NumElements());
  for (Label& label : labels) {
    if (swapped) {
      std::swap(label.a, label.b);
      std::swap(label.in_a, label.in_b);
    }
    if (!label.in_out)
      AddTerm(label.extent, label.a, label.b);
    else
      AddOutput(label.extent, {label.out, label.a, label.b}, label.in_a, label.in_b);
  }
  for (Nest* nest : {&batches, &m_of_a, &k_of_a, &k_of_b, &n_of_b, &m_of_out, &n_of_out, &outputs, &terms})
    nest->Collapse();
  ChooseDirect(out.dtype);
  ChooseBlocks();
}

void EinsumPlan::AddTerm(int64_t extent, int64_t a, int64_t b) {
  k *= extent;
  k_of_a.Add(extent, {a});
  k_of_b.Add(extent, {b});
  terms.Add(extent, {a, b});
}

void EinsumPlan::AddOutput(int64_t extent, const Offsets& stride, bool in_a, bool in_b) {
  outputs.Add(extent, stride);
  if (in_a && in_b) {
    batch *= extent;
    batches.Add(extent, stride);
  } else if (in_a) {
    m *= extent;
    m_of_out.Add(extent, {stride[0]});
    m_of_a.Add(extent, {stride[1]});
  } else {
    n *= extent;
    n_of_out.Add(extent, {stride[0]});
    n_of_b.Add(extent, {stride[2]});
  }
}

void EinsumPlan::ChooseDirect(DType dtype) {
  a_direct = IsDirect(m_of_a, k_of_a);
  b_direct = IsDirect(k_of_b, n_of_b);
  out_direct = m_of_out.rank <= 1 && n_of_out.rank <= 1 && (n_of_out.rank == 0 || n_of_out.strides[0][0] == 1);
  // Below 32^3 the overhead of a oneDNN call is more than the widening costs.
  bf16 = dtype == DType::kBF16 && a_direct && b_direct && out_direct && m * n * k >= 32768 && HasBf16Gemm();
  // Other 16-bit operands are widened while packing.
  if (SizeOf(dtype) == 2 && !bf16) a_direct = b_direct = out_direct = false;
}

void EinsumPlan::ChooseBlocks() {
  tiny = batch > 1 && m * n * k < 512;
  block_m = std::max<int64_t>(m, 1);
  block_n = std::max<int64_t>(n, 1);
  if (a_direct && b_direct && out_direct) {
    if (batch >= 16) return;
    if (m >= 512)
      block_m = 256;
    else if (n >= 512)
      block_n = 256;
  } else {
    block_m = std::min<int64_t>(block_m, 256);
    block_n = std::min<int64_t>(block_n, 512);
  }
}

}  // namespace weft::cpu
