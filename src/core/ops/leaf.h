// Leaves: where values enter a graph.
#pragma once
#include <optional>
#include <string>

#include "weft/core/base/dtype.h"
#include "weft/core/base/error.h"
#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {
class Var;

// Leaf     name, dtype, shape, placement, parameter (0 or 1): an entry of the State or an input slot. It has no kernel,
//          because the executor binds its storage.
// Full     value, dtype, shape: every element is the value. A generator: it has no inputs and is created in the
//          placement that each consumer wants.
// Iota     dim, dtype, shape: each element is its global index along dim (i64 or i32). A generator.
// Reshard  (x); target, a Sharding with kKeep for axes that stay. Or (x, like): the target is the dual of the placement
//          of like. Or (x); dim: x's placement without shards of dim. Partition turns it into collectives, so it has no
//          kernel. wire: sums of f32 cross ranks in this type (core/ir/wire.h).

// A value read by name. `placement` is how it is stored; empty means replicated.
Var Leaf(std::string name, DType dtype, Shape shape, const Sharding& placement = {}, Loc loc = Loc::current());
// A leaf that counts as a parameter. Its gradient stays Partial through the ops that are computed only from parameters,
// down to this leaf.
Var ParameterLeaf(std::string name, DType dtype, Shape shape, const Sharding& placement = {}, Loc loc = Loc::current());
Var Full(double value, DType dtype, Shape shape, Loc loc = Loc::current());
Var Iota(int dim, DType dtype, Shape shape, Loc loc = Loc::current());
// Converts x to the target placement, axis by axis. Axes marked Keep() stay as they are.
Var Reshard(Var x, const Sharding& target, Loc loc = Loc::current());
// Converts x to the dual of like's placement, which is the layout of like's cotangent. Reads only like's placement.
Var ReshardLike(Var x, Var like, Loc loc = Loc::current());
// Reshard and ReshardLike for an f32 value whose sums over ranks travel in `wire` (bf16). That rounds the sums.
// nullopt: the sums travel in f32.
Var Reshard(Var x, const Sharding& target, std::optional<DType> wire, Loc loc = Loc::current());
Var ReshardLike(Var x, Var like, std::optional<DType> wire, Loc loc = Loc::current());

}  // namespace weft
