#include "weft/parallel/dtensor/factories.h"

#include <fmt/format.h>

#include <bit>
#include <functional>

#include "weft/core/base/shard.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

void CheckDefaultDevice(const EagerSession& session, const Site& site) {
  WEFT_CHECK(
      DefaultDevice() == session.device(),
      fmt::format("{}: the default device is {}, and the open EagerScope makes tensors on {}; open an EagerScope "
                  "in the DefaultDeviceScope, or leave that",
                  ToString(site), ToString(DefaultDevice()), ToString(session.device())));
}

void CheckShape(const Shape& shape, const Site& site) {
  std::string fault = ShapeFault(shape);
  WEFT_CHECK(fault.empty(), fmt::format("{}: {}", ToString(site), fault));
}

// The session and the sharding of a new tensor.
struct Place {
  std::shared_ptr<EagerSession> session;
  Sharding sharding;
};
Place PlaceOf(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const Site& site) {
  CheckShape(shape, site);
  const auto& session = EagerScope::Need(mesh, site);
  CheckDefaultDevice(*session, site);
  return {session, session->Place(placements, shape, site)};
}

// Returns a random or constant value. It is lazy, so each rank computes only its chunk of the wanted placement.
using Generate = std::function<Var(Builder&)>;
DTensor Make(const Shape& shape, DeviceMesh& mesh, const Placements& placements, bool requires_grad, const Site& site,
             const Generate& generate) {
  Place place = PlaceOf(shape, mesh, placements, site);
  EagerBuilder& builder = place.session->builder();
  BuilderScope scope(builder);
  Tensor storage = builder.ToLocal(generate(builder), place.sharding);
  return FromStorage(place.session, std::move(storage), shape, place.sharding, {requires_grad}, site);
}

DTensor Constant(const Shape& shape, double value, DeviceMesh& mesh, const Placements& placements,
                 const FactoryOptions& o, const Site& site) {
  return Make(shape, mesh, placements, o.requires_grad, site,
              [&](Builder&) { return Full(value, o.dtype, shape, site.loc); });
}

// With a seed the numbers do not depend on earlier draws. Without one they are the next numbers of the scope.
Var Draw(Builder& builder, const char* kind, const Shape& shape, const RandomOptions& o, const Loc& loc) {
  uint64_t key = o.seed ? RandomKey(*o.seed, RandomPhase::kInit, kind, 0) : builder.NextRandomKey();
  Var zero = Full(0, DType::kI64, {}, loc);
  return EmitOne(Op::kRandom,
                 {{"kind", kind}, {"key", std::bit_cast<int64_t>(key)}, {"dtype", int(o.dtype)}, {"shape", shape}},
                 {o.seed ? zero : builder.step, zero}, loc);
}

DTensor Random(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const RandomOptions& o,
               const Site& site, const Generate& generate) {
  WEFT_CHECK(IsFloating(o.dtype), fmt::format("{}: expected a floating dtype, got {}", ToString(site), Name(o.dtype)));
  return Make(shape, mesh, placements, o.requires_grad, site, generate);
}

}  // namespace

DTensor Zeros(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options,
              Loc loc) {
  return Constant(shape, 0, mesh, placements, options, {"Zeros", loc});
}
DTensor Ones(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options,
             Loc loc) {
  return Constant(shape, 1, mesh, placements, options, {"Ones", loc});
}
DTensor Full(const Shape& shape, double value, DeviceMesh& mesh, const Placements& placements,
             const FactoryOptions& options, Loc loc) {
  return Constant(shape, value, mesh, placements, options, {"Full", loc});
}

DTensor Empty(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options,
              Loc loc) {
  Site site{"Empty", loc};
  Place place = PlaceOf(shape, mesh, placements, site);
  Tensor storage =
      Tensor::Empty(options.dtype, ChunkShape(shape, place.sharding, mesh.shape()), place.session->memory());
  return FromStorage(place.session, std::move(storage), shape, place.sharding, {options.requires_grad}, site);
}

DTensor Arange(int64_t count, DeviceMesh& mesh, const Placements& placements, const FactoryOptions& options, Loc loc) {
  return Make({count}, mesh, placements, options.requires_grad, {"Arange", loc}, [&](Builder&) {
    return Cast({Iota(0, DType::kI64, {count}, loc), loc}, options.dtype);
  });
}

DTensor Rand(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const RandomOptions& options,
             Loc loc) {
  return Random(shape, mesh, placements, options, {"Rand", loc},
                [&](Builder& b) { return Draw(b, "uniform", shape, options, loc); });
}
DTensor Uniform(const Shape& shape, double low, double high, DeviceMesh& mesh, const Placements& placements,
                const RandomOptions& options, Loc loc) {
  return Random(shape, mesh, placements, options, {"Uniform", loc}, [&](Builder& b) {
    Var unit = Draw(b, "uniform", shape, options, loc);
    return AddScalar({Scale({unit, loc}, high - low), loc}, low);
  });
}
DTensor Randn(const Shape& shape, DeviceMesh& mesh, const Placements& placements, const RandomOptions& options,
              Loc loc) {
  return Random(shape, mesh, placements, options, {"Randn", loc},
                [&](Builder& b) { return Draw(b, "normal", shape, options, loc); });
}

}  // namespace weft
