// Functions under PyTorch's names that are composed of other ops, so they work on every device and mesh and have all
// derivatives. 16-bit floats are summed in f32. A negative dim counts from the end.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "weft/core/ir/node.h"

namespace weft {

// exp(x - max) / sum, log(softmax) and log(sum(exp(x))) over `dim`, which LogSumExp removes.
Var Softmax(Var x, int dim, Loc loc = Loc::current());
Var LogSoftmax(Var x, int dim, Loc loc = Loc::current());
Var LogSumExp(Var x, int dim, Loc loc = Loc::current());

// The mean over all dims, and over one dim, which is removed. Throws Error unless x is of floats.
Var Mean(Var x, Loc loc = Loc::current());
Var Mean(Var x, int dim, Loc loc = Loc::current());
// The sum of squared distances from the mean over `dim`, divided by max(0, n - correction). The dim is removed.
Var Variance(Var x, int dim, int64_t correction = 1, Loc loc = Loc::current());
// a . b / (max(|a|, eps) max(|b|, eps)) over `dim`, which is removed. Operands are broadcast.
Var CosineSimilarity(Var a, Var b, int dim = 1, double eps = 1e-8, Loc loc = Loc::current());

// Ids [...] of i32 or i64 -> i64 [..., classes]: 1 at the id, else 0. An id outside [0, classes) gives zeros.
Var OneHot(Var ids, int64_t classes, Loc loc = Loc::current());
// The last two dims on and below (Tril) or above (Triu) the diagonal with column - row = `diagonal`, and 0 elsewhere.
Var Tril(Var x, int64_t diagonal = 0, Loc loc = Loc::current());
Var Triu(Var x, int64_t diagonal = 0, Loc loc = Loc::current());

// Where is Select. MaskedFill returns `value` where the mask is true, and x elsewhere. Operands are broadcast.
Var Where(Var condition, Var a, Var b, Loc loc = Loc::current());
Var MaskedFill(Var x, Var mask, double value, Loc loc = Loc::current());
// min(max(x, low), high); throws Error without both, or if one is NaN. The gradient passes where low < x < high.
Var Clamp(Var x, std::optional<double> low, std::optional<double> high, Loc loc = Loc::current());

// Joins tensors of one shape along a new dim.
Var Stack(std::span<const Var> xs, int dim = 0, Loc loc = Loc::current());
// Cuts `dim` into pieces of ceil(n / chunks) elements. The last piece may be shorter, and there may be fewer pieces.
std::vector<Var> Chunk(Var x, int64_t chunks, int dim = 0, Loc loc = Loc::current());

}  // namespace weft
