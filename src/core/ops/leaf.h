// Leaves: where values enter a graph.
#pragma once
#include <string>

#include "weft/core/base/dtype.h"
#include "weft/core/base/error.h"
#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {
class Var;

// Leaf     name, placement, parameter (0 or 1): an entry of the State or an input slot. No kernel: the executor binds
//          its storage.
// Full     value, shape: every element is the value. A generator: no inputs, made in whatever placement is wanted.
// Iota     dim, shape: element = global index along dim (i64 or i32). A generator.
// Reshard  target (a Sharding, kKeep for axes left alone), or a second input whose placement is taken (its dual).
//          Partition turns it into collectives; it has no kernel.

// A value read by name. `placement` is how it is stored; left empty it is replicated.
Var Leaf(std::string name, DType dtype, Shape shape, const Sharding& placement = {}, Loc loc = Loc::current());
// A leaf that counts as a parameter: its gradient stays Partial down to it (design: chains made from parameters alone).
Var ParameterLeaf(std::string name, DType dtype, Shape shape, const Sharding& placement = {}, Loc loc = Loc::current());
Var Full(double value, DType dtype, Shape shape, Loc loc = Loc::current());
Var Iota(int dim, DType dtype, Shape shape, Loc loc = Loc::current());
// Converts to the target placement, axis by axis; axes marked Keep() stay.
Var Reshard(Var x, const Sharding& target, Loc loc = Loc::current());
// Converts to the dual of like's placement (the layout of like's cotangent). Only like's placement is read.
Var ReshardLike(Var x, Var like, Loc loc = Loc::current());

}  // namespace weft
