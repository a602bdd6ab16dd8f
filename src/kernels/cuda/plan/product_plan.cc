#include "weft/kernels/cuda/plan/product_plan.h"

#include <algorithm>

namespace weft::cuda {
namespace {

using Copy = ProductPlan::Copy;

constexpr int64_t kTiny = 512;                   // multiplications per product; fewer than a tile of the library
constexpr int64_t kWorthCopying = 1 << 22;       // multiplications below which copies cost more than they save
constexpr int64_t kThin = 8;                     // with smaller extents a product is as light as its copies
constexpr int64_t kWide = 128, kMostCalls = 64;  // a batch of products this wide is as fast as one large product

// A matrix in storage: rows of contiguous elements that lie `ld` apart. k_inner: whether the terms are the contiguous
// group.
struct Matrix {
  bool valid = false, k_inner = false;
  int64_t ld = 0;
};

struct Groups {
  Nest batches, rows, columns, terms;  // as in EinsumLabels
};

Matrix Checked(Matrix matrix, int64_t inner) {
  matrix.valid = matrix.ld >= inner;
  return matrix;
}

// Returns an operand as a matrix, from the walks of its rows or columns and of its terms. Not valid if it cannot be
// read in place.
Matrix OperandMatrix(const Nest& free, const Nest& terms) {
  if (free.rank > 1 || terms.rank > 1) return {};
  int64_t steps = free.Count(), k = terms.Count();
  if (terms.rank && terms.inner_stride(0) == 1)
    return Checked({.k_inner = true, .ld = free.rank ? free.inner_stride(0) : k}, k);
  if (free.rank == 0 || free.inner_stride(0) == 1)
    return Checked({.k_inner = false, .ld = terms.rank ? terms.inner_stride(0) : steps}, steps);
  if (terms.rank == 0) return Checked({.k_inner = true, .ld = free.inner_stride(0)}, 1);
  return {};
}

Matrix OutMatrix(const Nest& rows, const Nest& columns) {
  if (rows.rank > 1 || columns.rank > 1 || (columns.rank && columns.inner_stride(0) != 1)) return {};
  int64_t n = columns.Count();
  return Checked({.ld = rows.rank ? rows.inner_stride(0) : n}, n);
}

Nest WithoutOuter(const Nest& nest) {
  Nest rest(nest.operands);
  for (int d = 1; d < nest.rank; d++) rest.Add(nest.extents[size_t(d)], nest.strides[size_t(d)]);
  return rest;
}

// Moves the outer loops of rows and columns to the batch. The other operand has stride 0 along them.
Groups Promoted(const EinsumLabels& labels) {
  Groups g{labels.batches, labels.rows, labels.columns, labels.terms};
  auto fits = [&](const Nest& nest) {
    return nest.rank > 1 && nest.inner_extent() >= kWide && g.batches.rank < kMaxRank;
  };
  while (fits(g.rows)) {
    g.batches.Add(g.rows.extents[0], {g.rows.strides[0][0], g.rows.strides[0][1], 0});
    g.rows = WithoutOuter(g.rows);
  }
  while (fits(g.columns)) {
    g.batches.Add(g.columns.extents[0], {g.columns.strides[0][0], 0, g.columns.strides[0][1]});
    g.columns = WithoutOuter(g.columns);
  }
  g.batches.Collapse();
  return g;
}

// Adds the loops of one tensor's group to a copy. On the dense side, neighbours of the group lie `step` apart.
void AddDense(Nest& loops, const Nest& group, int operand, int64_t step) {
  int64_t rest = group.Count();
  for (size_t d = 0; d < size_t(group.rank); d++) {
    rest /= group.extents[d];
    loops.Add(group.extents[d], {step * rest, group.strides[d][size_t(operand)]});
  }
}

// Rows of a dense form begin at multiples of 16 bytes.
int64_t DenseLd(DType dtype, int64_t inner) { return RoundUp(inner, 16 / int64_t(SizeOf(dtype))); }

Matrix PackOperand(DType dtype, const Nest& batches, int operand, const Nest& free, const Nest& terms, Copy& copy) {
  bool free_inner = free.rank && free.inner_stride(0) == 1, terms_inner = terms.rank && terms.inner_stride(0) == 1;
  bool k_inner = terms_inner || !free_inner;
  const Nest &inner = k_inner ? terms : free, &outer = k_inner ? free : terms;
  int64_t ld = DenseLd(dtype, inner.Count()), matrix = ld * outer.Count();
  AddDense(copy.loops, batches, operand, matrix);
  AddDense(copy.loops, outer, 0, ld);
  AddDense(copy.loops, inner, 0, 1);  // [batch, outer, inner]
  copy.loops.Collapse();
  copy.elements = matrix * batches.Count();
  return {true, k_inner, ld};
}

// Moves the loop with the smallest stride of `to` innermost, so that writes go to neighbours.
void SortByTo(Nest& loops) {
  for (size_t i = 1; i < size_t(loops.rank); i++)
    for (size_t j = i; j > 0 && loops.strides[j][0] > loops.strides[j - 1][0]; j--) {
      std::swap(loops.strides[j], loops.strides[j - 1]);
      std::swap(loops.extents[j], loops.extents[j - 1]);
    }
}

Matrix PackOut(DType dtype, const Groups& g, Copy& copy) {
  int64_t ld = DenseLd(dtype, g.columns.Count()), matrix = ld * g.rows.Count();
  AddDense(copy.loops, g.batches, 0, matrix);
  AddDense(copy.loops, g.rows, 0, ld);
  AddDense(copy.loops, g.columns, 0, 1);  // [batch, m, n]
  for (size_t d = 0; d < size_t(copy.loops.rank); d++) std::swap(copy.loops.strides[d][0], copy.loops.strides[d][1]);
  SortByTo(copy.loops);
  copy.loops.Collapse();
  copy.elements = matrix * g.batches.Count();
  return {.valid = true, .ld = ld};
}

// Returns the loops of the batch. Tensors with a dense copy have the strides of that copy.
Nest BatchLoops(const ProductPlan& plan, const Nest& batches) {
  Nest loops(3);
  int64_t rest = batches.Count();
  const std::array<const Copy*, 3> copies{&plan.out_copy, &plan.a_copy, &plan.b_copy};
  for (size_t d = 0; d < size_t(batches.rank); d++) {
    Offsets stride = batches.strides[d];
    rest /= batches.extents[d];
    for (size_t o = 0; o < 3; o++)
      if (*copies[o]) stride[o] = copies[o]->elements / batches.Count() * rest;
    loops.Add(batches.extents[d], stride);
  }
  loops.Collapse();
  return loops;
}

void SetProduct(ProductPlan& plan, const Groups& g, const Matrix& a, const Matrix& b, const Matrix& out) {
  Product& p = plan.product;
  p.m = g.columns.Count(), p.n = g.rows.Count(), p.k = g.terms.Count();
  p.transpose_a = b.k_inner;   // with n innermost, b is the library's column-major [n, k] as it lies
  p.transpose_b = !a.k_inner;  // with k innermost, a is the library's column-major [k, m] as it lies
  p.lda = b.ld, p.ldb = a.ld, p.ldd = out.ld;
  p.batch = 1, p.stride_a = p.stride_b = p.stride_d = 0;
  Nest loops = BatchLoops(plan, g.batches);
  int widest = 0;
  for (int d = 1; d < loops.rank; d++)
    if (loops.extents[size_t(d)] > loops.extents[size_t(widest)]) widest = d;
  plan.repeats = Nest(3);
  for (int d = 0; d < loops.rank; d++) {
    const Offsets& stride = loops.strides[size_t(d)];
    if (d == widest)
      p.batch = loops.extents[size_t(d)], p.stride_d = stride[0], p.stride_b = stride[1], p.stride_a = stride[2];
    else
      plan.repeats.Add(loops.extents[size_t(d)], stride);
  }
}

bool TryDirect(ProductPlan& plan) {
  Groups g = Promoted(plan);
  Matrix a = OperandMatrix(g.rows.Only(1), g.terms.Only(0)), b = OperandMatrix(g.columns.Only(1), g.terms.Only(1)),
         out = OutMatrix(g.rows.Only(0), g.columns.Only(0));
  if (!a.valid || !b.valid || !out.valid) return false;
  SetProduct(plan, g, a, b, out);
  return plan.repeats.Count() <= kMostCalls;
}

void PlanCopies(ProductPlan& plan) {
  Groups g{plan.batches, plan.rows, plan.columns, plan.terms};
  Nest m_of_a = g.rows.Only(1), k_of_a = g.terms.Only(0), k_of_b = g.terms.Only(1), n_of_b = g.columns.Only(1);
  DType dtype = plan.product.dtype;
  Matrix a = OperandMatrix(m_of_a, k_of_a), b = OperandMatrix(n_of_b, k_of_b),
         out = OutMatrix(g.rows.Only(0), g.columns.Only(0));
  if (!a.valid) a = PackOperand(dtype, g.batches, 1, m_of_a, k_of_a, plan.a_copy);
  if (!b.valid) b = PackOperand(dtype, g.batches, 2, n_of_b, k_of_b, plan.b_copy);
  if (!out.valid) out = PackOut(dtype, g, plan.out_copy);
  SetProduct(plan, g, a, b, out);
}

// The kernel splits no sums over blocks, so it needs many columns, and not too many terms.
bool HasFewRows(const ProductPlan& plan) {
  const Product& p = plan.product;
  return p.n <= kMostFewRows && !p.transpose_b && p.m >= 256 && p.k >= 64 && p.k <= 1 << 15 && p.m <= 1 << 30 &&
         p.batch == 1 && plan.repeats.Count() == 1 && p.dtype != DType::kF64;
}

}  // namespace

ProductPlan::ProductPlan(const KernelCall& call) : EinsumLabels(call) {
  product.dtype = call.in[0].dtype;
  product.wide = call.out[0].dtype != product.dtype;
  product.tf32 = product.dtype == DType::kF32 && call.context->numerics().tf32;
  route = Choose();
}

ProductPlan::Route ProductPlan::Choose() {
  if (empty()) return Route::kNothing;
  // Empty sums, elementwise multiplications, outer products, dot products and tiny products have no work beyond reading
  // and writing.
  if (k <= 1 || (m == 1 && n == 1) || (batch > 1 && m * n * k < kTiny)) return Route::kOwn;
  if (TryDirect(*this)) return HasFewRows(*this) ? Route::kFewRows : Route::kLibrary;
  if (std::min({m, n, k}) < kThin || batch * m * n * k < kWorthCopying) return Route::kOwn;
  PlanCopies(*this);
  return Route::kLibrary;
}

}  // namespace weft::cuda
