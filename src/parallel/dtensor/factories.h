// Factories: create DTensors directly in their placements, on the default device (core/base/device.h), without
// communication. They need an open EagerScope of the mesh.
//
//   DTensor w = Randn({1024, 4096}, mesh, {Replicate(), Shard(1)}, {.requires_grad = true, .seed = 7});
//
// The values depend on neither mesh nor placements. Random numbers are functions of a key and the global index, so one
// seed gives the same tensor everywhere, bit for bit. On a Partial(sum) axis coordinate 0 holds the values and the
// others hold zeros. On a Partial(max) or Partial(min) axis every coordinate holds the values.
#pragma once
#include <optional>

#include "weft/parallel/dtensor/dtensor.h"

namespace weft {

struct FactoryOptions {
  DType dtype = DType::kF32;
  bool requires_grad = false;
};
struct RandomOptions {
  DType dtype = DType::kF32;
  bool requires_grad = false;
  std::optional<uint64_t> seed{};  // nullopt: the next numbers of the scope's seed, step and module path
};

DTensor Zeros(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options = {},
              Loc loc = Loc::current());
DTensor Ones(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options = {},
             Loc loc = Loc::current());
DTensor Full(const Shape& shape, double value, DeviceMesh& mesh, const Placements& placements,
             const FactoryOptions& options = {}, Loc loc = Loc::current());
// The contents are undefined, and replicas may differ. Runs no kernel.
DTensor Empty(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options = {},
              Loc loc = Loc::current());
// Returns 0, 1, ..., count - 1.
DTensor Arange(int64_t count, DeviceMesh& mesh, const Placements& placements,
               const FactoryOptions& options = {.dtype = DType::kI64}, Loc loc = Loc::current());
// Rand is uniform in (0, 1), Uniform in [low, high], and Randn standard normal. Values are rounded to the dtype. They
// throw Error unless the dtype is floating.
DTensor Rand(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const RandomOptions& options = {},
             Loc loc = Loc::current());
DTensor Uniform(const Shape& shape, double low, double high, DeviceMesh& mesh, const Placements& placements,
                const RandomOptions& options = {}, Loc loc = Loc::current());
DTensor Randn(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const RandomOptions& options = {},
              Loc loc = Loc::current());

}  // namespace weft
