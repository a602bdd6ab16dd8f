// Embedding: rows of a table picked by integer ids, and the gradient of the table.
#pragma once
#include "weft/core/base/error.h"

namespace weft {
class Var;

// Embedding      (table [V, C], ids [...] of i32 or i64) -> [..., C]. An id whose row this rank does not hold (offset
//                and extent of dim 0 of the table) gives 0. The sum over ranks is the result.
// EmbeddingGrad  (ids [...], dy [..., C], table as a shape operand) -> [V, C]: the rows of dy summed by id, in order of
//                position, so the result is deterministic. Ids of rows that this rank does not hold are skipped.
//                Accumulates in f32 (f64 for f64). The result has the dtype of dy or, with wide = 1, the accumulate
//                type.

Var Embedding(Var table, Var ids, Loc loc = Loc::current());

}  // namespace weft
