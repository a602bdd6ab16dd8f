#include "weft/kernels/cuda/plan/linear_swiglu.h"

#include "weft/core/host/rounding.h"
#include "weft/core/ops/equation.h"
#include "weft/kernels/cuda/plan/einsum_sizes.h"
#include "weft/kernels/cuda/plan/rows.h"

namespace weft::cuda {
namespace {

const Attrs kNone;

size_t BytesOfDy(const TensorView& dy) { return ProductAligned(size_t(dy.NumElements()) * SizeOf(dy.dtype)); }

TensorView Dense(const TensorView& like, void* data) {
  Shape shape;
  for (int d = 0; d < like.rank; d++) shape.push_back(like.dim(d).extent);
  return MakeView(data, like.dtype, shape);
}

// Returns how far the rows of a view lie apart, or 0 if they are not at multiples of 16 bytes in one stride.
int64_t LeadingOf(const TensorView& v) {
  if (v.rank < 2 || v.dim(v.rank - 1).stride != 1 || reinterpret_cast<uintptr_t>(v.data) % 16 != 0) return 0;
  int64_t ld = v.dim(v.rank - 2).stride, apart = ld;
  for (int d = v.rank - 2; d >= 0; apart *= v.dim(d--).extent)
    if (v.dim(d).extent > 1 && v.dim(d).stride != apart) return 0;
  return ld % (16 / int64_t(SizeOf(v.dtype))) == 0 ? ld : 0;
}

// Whether the equation is "r..k,nk->r..n".
bool IsProductOfRows(const Equation& eq) {
  return eq.b.size() == 2 && !eq.a.empty() && eq.a.back() == eq.b[1] && !eq.out.empty() && eq.out.back() == eq.b[0] &&
         eq.a.substr(0, eq.a.size() - 1) == eq.out.substr(0, eq.out.size() - 1);
}

}  // namespace

LinearSwiGluParts::LinearSwiGluParts(const KernelCall& call)
    : dy(Dense(call.in[2], call.workspace)), of_grad{call.in[2], call.in[3], dy}, product(call), gradient(call) {
  product.in = call.in.first(2);
  product.out = std::span(&dy, 1);
  size_t bytes = BytesOfDy(dy);
  product.workspace = call.workspace ? static_cast<char*>(call.workspace) + bytes : nullptr;
  product.workspace_bytes = call.workspace_bytes > bytes ? call.workspace_bytes - bytes : 0;
  gradient.attrs = &kNone;
  gradient.in = of_grad;
  gradient.workspace_bytes = 0;
}

SwiGluTiles::SwiGluTiles(const KernelCall& call) {
  const TensorView &x = call.in[0], &w = call.in[1];
  if (x.dtype != DType::kBF16 || !IsProductOfRows(Equation(call.attrs->Text("eq")))) return;
  rows = RowCount(x), terms = ColumnsOf(x), columns = w.dim(0).extent;
  ld_x = LeadingOf(x), ld_w = LeadingOf(w), ld_a = LeadingOf(call.in[2]), ld_b = LeadingOf(call.in[3]);
  ld_da = LeadingOf(call.out[0]), ld_db = LeadingOf(call.out[1]);
  bool in_rows = ld_x && ld_w && ld_a && ld_b && ld_da && ld_db;
  fits = in_rows && rows % kRows == 0 && columns % kColumns == 0 && terms % kTerms == 0 && rows > 0 && columns > 0 &&
         terms > 0;
}

size_t LinearSwiGluWorkspace(const KernelCall& call) {
  LinearSwiGluParts parts(call);
  return BytesOfDy(parts.dy) + EinsumWorkspace(parts.product);
}

}  // namespace weft::cuda
