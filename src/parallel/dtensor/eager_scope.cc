#include "weft/parallel/dtensor/eager_scope.h"

#include <fmt/format.h>

#include "weft/core/ops/ops.h"

namespace weft {
namespace {

thread_local EagerScope* current = nullptr;

Tensor BindsNothing(const std::string& name, const ValueInfo&) {
  Fail(
      fmt::format("leaf \"{}\": an EagerScope has no named entries; use DistributeTensor or DTensor::FromLocal", name));
}

void CheckSameWorld(const Context& context, const DeviceMesh& mesh, const Site& site) {
  WEFT_CHECK(
      mesh.IsOf(context),
      fmt::format("{}: expected the context that the mesh {} was made with (rank {} of {}), got that of rank {} of {}",
                  ToString(site), ToString(mesh.shape()), mesh.rank(), mesh.size(), context.rank(),
                  context.world_size()));
  WEFT_CHECK(mesh.has_this_rank(),
             fmt::format("{}: rank {} is not among the ranks of the mesh {}; open an EagerScope on its ranks only",
                         ToString(site), context.rank(), ToString(mesh.shape())));
}

// Returns the kind of the default device. Throws Error if this rank does not have that device.
DeviceKind OwnDevice(const Context& context, const Site& site) {
  Device asked = DefaultDevice();
  bool has = context.Has(asked.kind) && context.device(asked.kind).device() == asked;
  WEFT_CHECK(has, fmt::format("{}: the default device is {}, and rank {} does not have it; open a DefaultDeviceScope "
                              "of context.device(kind).device()",
                              ToString(site), ToString(asked), context.rank()));
  return asked.kind;
}

}  // namespace

EagerSession::EagerSession(const Context& context, DeviceMesh& mesh, DeviceKind device, BuilderOptions options,
                           Binder bind)
    : mesh_(&mesh),
      memory_(&context.device(device)),
      builder_(RuntimeOf(context, mesh, device), std::move(bind), options) {}

std::shared_ptr<EagerSession> EagerSession::Open(DeviceMesh& mesh, BuilderOptions options, Binder bind,
                                                 const Site& site) {
  const Context& context = mesh.context();
  CheckSameWorld(context, mesh, site);
  if (!bind) bind = BindsNothing;
  return std::make_shared<EagerSession>(context, mesh, OwnDevice(context, site), options, std::move(bind));
}

Sharding EagerSession::Place(const Placements& placements, const Shape& shape, const Site& site) {
  const MeshShape& axes = mesh_->shape();
  Sharding sharding = placements.Check(shape, axes, site);
  CheckOnePartial(sharding, axes, site);
  return builder_.Resolve(sharding, Sharding(axes.num_axes()));
}

EagerScope::EagerScope(std::shared_ptr<EagerSession> session, Loc)
    : session_(std::move(session)), scope_(session_->builder()), outer_(current) {
  BeginStep(0);
  current = this;
}
EagerScope::EagerScope(DeviceMesh& mesh, BuilderOptions options, Loc loc)
    : EagerScope(EagerSession::Open(mesh, options, {}, {"EagerScope", loc}), loc) {}
EagerScope::EagerScope(const Context& context, DeviceMesh& mesh, BuilderOptions options, Loc loc)
    : EagerScope((CheckSameWorld(context, mesh, {"EagerScope", loc}), mesh), options, loc) {}
EagerScope::~EagerScope() { current = outer_; }

void EagerScope::BeginStep(int64_t step, int64_t first_row) {
  BuilderScope scope(builder());
  builder().step = Full(double(step), DType::kI64, {});
  builder().first_row = Full(double(first_row), DType::kI64, {});
  builder().RestartRandom();
}

EagerScope* EagerScope::Current() { return current; }

const std::shared_ptr<EagerSession>& EagerScope::Need(const DeviceMesh& mesh, const Site& site) {
  WEFT_CHECK(current, fmt::format("{}: no EagerScope is open on this thread; write EagerScope eager(mesh) before it",
                                  ToString(site)));
  const DeviceMesh& open = current->session()->mesh();
  WEFT_CHECK(
      &open == &mesh,
      fmt::format(
          "{}: expected the mesh of the open EagerScope ({}), got another mesh ({}); open an EagerScope of that one",
          ToString(site), ToString(open.shape()), ToString(mesh.shape())));
  return current->session();
}

}  // namespace weft
