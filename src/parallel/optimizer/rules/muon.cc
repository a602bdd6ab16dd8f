// Muon (Jordan et al. 2024). Reads momentum, nesterov and weight_decay. The momentum of a product's weight is viewed as
// one matrix [in, out]. Newton-Schulz iterations bring it near the closest orthogonal matrix. The result is scaled so
// that AdamW's learning rate and weight decay suit it (Liu et al. 2025, "Muon is Scalable for LLM Training"). AdamW
// updates the other parameters; it reads betas and eps.
//
// The matrix is the global one. On a mesh the momentum is gathered once per step, and each rank keeps its part of the
// result. Orthogonalizing the parts instead would be a different optimizer on every mesh.
#include <algorithm>
#include <cmath>

#include "weft/core/ops/ops.h"
#include "weft/parallel/optimizer/optimizer.h"

namespace weft::optimizers {
namespace {

constexpr const char *kSlots[] = {"momentum"}, *kKeys[] = {"momentum", "nesterov", "betas", "eps"};

SlotNames Slots(const OptimizerOptions&) { return kSlots; }

bool Takes(const Parameter& parameter) { return parameter.product_inputs() > 0; }

// [in..., out...] -> [in, out]
Var AsMatrix(Var x, int inputs) {
  while (inputs > 1) x = Merge(x, --inputs - 1);  // [in, out...]
  while (x.rank() > 2) x = Merge(x, 1);           // [in, out]
  return x;
}
// [in, out] -> the parameter's shape; the inverse of AsMatrix.
Var FromMatrix(Var x, const Shape& shape, int inputs) {
  auto split = [&](int first, int last) {  // splits dim `first` of x into dims first, ..., last - 1 of the shape
    int64_t inner = 1;
    for (int d = first + 1; d < last; d++) inner *= shape[size_t(d)];
    for (int d = first; d + 1 < last; d++) {
      x = Split(x, d, inner);
      inner /= shape[size_t(d) + 1];
    }
  };
  split(0, inputs);
  split(inputs, int(shape.size()));
  return x;
}

// Newton-Schulz with the coefficients of Jordan et al. The singular values come near 1, between 0.7 and 1.2.
Var Orthogonalized(Var x) {  // [in, out]
  constexpr double kA = 3.4445, kB = -4.775, kC = 2.0315;
  constexpr int kSteps = 5;
  bool wide = x.dim(0) <= x.dim(1);  // contracting the longer side gives the smaller Gram matrix
  Var norm = Sqrt(SumOfSquares(x));  // []
  x = x * BroadcastTo(Recip(AddScalar(norm, 1e-7)), x.shape());  // [in, out]
  for (int i = 0; i < kSteps; i++) {
    Var gram = wide ? Einsum("ik,jk->ij", x, x) : Einsum("ki,kj->ij", x, x);          // [n, n]
    Var both = Scale(gram, kB) + Scale(Einsum("ij,jk->ik", gram, gram), kC);          // [n, n]
    Var turned = wide ? Einsum("ij,jk->ik", both, x) : Einsum("ij,jk->ik", x, both);  // [in, out]
    x = Scale(x, kA) + turned;                                                        // [in, out]
  }
  return x;
}

// Computes the direction from the whole momentum matrix. Returns it in the placement in which the parameter is stored.
Var Direction(const Var& ahead, const Parameter& p) {
  const ModelScope& scope = ModelScope::Current();
  int inputs = p.product_inputs();
  Var matrix = AsMatrix(Reshard(ahead, Sharding(scope.options().mesh.num_axes())), inputs);  // [in, out]
  double longer = double(std::max(matrix.dim(0), matrix.dim(1)));
  Var scaled = Scale(Orthogonalized(matrix), 0.2 * std::sqrt(longer));     // [in, out]
  return Reshard(FromMatrix(scaled, p.shape(), inputs), scope.Stored(p));  // the parameter's shape
}

std::vector<Var> Update(const ParameterUpdate& u) {
  const OptimizerOptions& o = u.options;
  const Shape& shape = u.value.shape();
  DType wide = u.lr.dtype();
  auto all = [&](const Var& scalar) { return BroadcastTo(scalar, shape); };
  Var p = Cast(u.value, wide), g = Cast(u.gradient, wide) * all(u.scale);  // the parameter's shape, as all values below
  Var momentum = Scale(Cast(u.slots[0], wide), o.momentum) + g;
  Var step = Direction(o.nesterov ? g + Scale(momentum, o.momentum) : momentum, u.parameter);
  Var moved = p - all(u.lr) * (step + Scale(p, o.weight_decay));
  Var any = all(Gt(u.updates, Full(0, DType::kI64, {})));
  auto next = [&](const Var& value, const Var& old) { return Select(any, Cast(value, old.dtype()), old); };
  return {next(moved, u.value), next(momentum, u.slots[0])};
}

}  // namespace

extern const OptimizerRule muon;
const OptimizerRule muon{.name = "muon",
                         .summary = "momentum orthogonalised, for the matrices of blocks; AdamW for the rest",
                         .defaults = {.momentum = 0.95, .nesterov = true, .weight_decay = 0.1},
                         .keys = kKeys,
                         .slots = Slots,
                         .update = Update,
                         .takes = Takes};

}  // namespace weft::optimizers
