// Factories: new tensors, made in their placement on the default device (core/base/device.h), without communication.
//
//   DTensor w = Randn({1024, 4096}, mesh, {Replicate(), Shard(1)}, {.requires_grad = true, .seed = 7});
//
// The values depend on neither mesh nor placements: random numbers are functions of a key and the global index, so one
// seed gives one tensor everywhere, bit for bit. On Partial axes coordinate 0 holds a sum and the others zeros.
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
  std::optional<uint64_t> seed{};  // absent: the next numbers of the scope's seed, step and module path
};

DTensor Zeros(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options = {},
              Loc loc = Loc::current());
DTensor Ones(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options = {},
             Loc loc = Loc::current());
DTensor Full(const Shape& shape, double value, DeviceMesh& mesh, const Placements& placements,
             const FactoryOptions& options = {}, Loc loc = Loc::current());
// Contents undefined, of replicas too. No kernel runs.
DTensor Empty(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options = {},
              Loc loc = Loc::current());
// 0, 1, ... count - 1.
DTensor Arange(int64_t count, DeviceMesh& mesh, const Placements& placements,
               const FactoryOptions& options = {.dtype = DType::kI64}, Loc loc = Loc::current());
// Uniform in (0, 1), in [low, high], and standard normal, rounded to the dtype.
DTensor Rand(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const RandomOptions& options = {},
             Loc loc = Loc::current());
DTensor Uniform(const Shape& shape, double low, double high, DeviceMesh& mesh, const Placements& placements,
                const RandomOptions& options = {}, Loc loc = Loc::current());
DTensor Randn(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const RandomOptions& options = {},
              Loc loc = Loc::current());

}  // namespace weft
