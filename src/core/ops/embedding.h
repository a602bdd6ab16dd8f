// Embedding: rows of a table picked by integer ids, and the gradient of the table.
#pragma once
#include "weft/core/base/error.h"

namespace weft {
class Var;

// Embedding      inputs (table [V, C], ids [...] of i32 or i64) -> [..., C]. An id whose row this rank does not hold
//                (table offset / extent of dim 0) gives 0; the sum over ranks is the result.
// EmbeddingGrad  inputs (ids [...], dy [..., C], table as a shape operand) -> [V, C]: dy summed by id, in order of
//                position (deterministic); ids of rows not held are skipped. Accumulates in f32 (f64 for f64). The
//                result is of the dtype of dy or, with wide = 1, of the accumulate type.

Var Embedding(Var table, Var ids, Loc loc = Loc::current());

}  // namespace weft
