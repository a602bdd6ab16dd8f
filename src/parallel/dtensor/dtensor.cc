#include "weft/parallel/dtensor/dtensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "weft/core/base/shard.h"
#include "weft/parallel/dtensor/resized.h"

namespace weft {
namespace {

std::string Describe(const Tensor& t) {
  return t.defined() ? fmt::format("{} {}", Name(t.dtype()), ToString(t.shape())) : "an empty tensor";
}

void CheckTensor(const Tensor& t, const Site& site) {
  WEFT_CHECK(t.defined(), fmt::format("{}: expected a tensor, got an empty one", ToString(site)));
}

// Returns the tensor itself if it is on the session's device, otherwise a copy there.
Tensor OnDevice(const Tensor& t, const EagerSession& session) {
  return t.device() == session.device() ? t : t.To(session.memory());
}

// "rank 3 (dp=1, tp=1)"
std::string DescribeRank(const DeviceMesh& mesh) {
  std::string text = fmt::format("rank {} (", mesh.rank());
  for (int axis = 0; axis < mesh.shape().num_axes(); axis++)
    text += fmt::format("{}{}={}", axis ? ", " : "", mesh.shape().names[size_t(axis)], mesh.coords()[size_t(axis)]);
  return text + ")";
}

// Returns the shape of the elements that this rank holds, without padding.
Shape ExtentsOf(const Shape& global, const Sharding& sharding, const DeviceMesh& mesh) {
  Shape extents = global;
  for (size_t d = 0; d < global.size(); d++)
    extents[d] = ShardOfDim(global[d], sharding.DimAxes(int(d)), mesh.shape(), mesh.coords()).extent;
  return extents;
}

// Throws Error if this rank's tensor differs from the source rank's in dtype, kind of device or shape. Otherwise a rank
// could hold a chunk that fits no collective or, worse, one that fits by chance. Collective.
void CheckSameOnRanks(const Tensor& t, DeviceMesh& mesh, int source, const Site& site) {
  std::array<int64_t, kMaxRank + 3> mine{int64_t(t.dtype()), int64_t(t.device().kind), int64_t(t.shape().size())};
  std::copy(t.shape().begin(), t.shape().end(), mine.begin() + 3);
  auto theirs = mine;
  mesh.World().Broadcast(theirs.data(), int64_t(theirs.size()), DType::kI64, source, site.loc);
  if (mine == theirs) return;
  WEFT_CHECK(
      mine[1] == theirs[1],
      fmt::format("{}: expected a tensor on {} as on rank {}, whose values are taken, got one on {} on {}; pass "
                  "tensors of one kind of device on every rank",
                  ToString(site), Name(DeviceKind(theirs[1])), source, Name(DeviceKind(mine[1])), DescribeRank(mesh)));
  Shape shape(theirs.begin() + 3, theirs.begin() + 3 + theirs[2]);
  Fail(fmt::format(
      "{}: expected {} {} as on rank {}, whose values are taken, got {} on {}; pass one shape and dtype on every rank",
      ToString(site), Name(DType(theirs[0])), ToString(shape), source, Describe(t), DescribeRank(mesh)));
}

// Returns a copy of the source rank's tensor on the device of `full`. With kOwn returns a copy of `full`.
Tensor Broadcasted(const Tensor& full, DeviceMesh& mesh, int source, const Site& site) {
  Tensor copy = full.Clone();
  if (source == DistributeOptions::kOwn) return copy;
  WEFT_CHECK(source >= 0 && source < mesh.size(),
             fmt::format("{}: expected a source rank in [0, {}) or kOwn, got {}", ToString(site), mesh.size(), source));
  CheckSameOnRanks(full, mesh, source, site);
  ProcessGroup& world = mesh.World(copy.device().kind);
  if (copy.num_elements()) world.Broadcast(copy.data(), copy.num_elements(), copy.dtype(), source, site.loc);
  return copy;
}

std::string RunsOn(const EagerSession& session) {
  return fmt::format("run on {} of {}", ToString(session.device()), ToString(session.mesh().shape()));
}

void CheckPartialStays(const DTensor& t, const Sharding& want, const Site& site) {
  const Sharding& have = t.placements();
  for (int axis = 0; axis < have.num_axes(); axis++) {
    bool both = have[axis].kind == Placement::kPartial && want[axis].kind == Placement::kPartial;
    WEFT_CHECK(!both || have[axis].reduce == want[axis].reduce,
               fmt::format("{}: {} is {} on axis \"{}\" and cannot become {}: two kinds of Partial never mix; go "
                           "through Replicate() or Shard()",
                           ToString(site), ToString(t), ToString(have[axis]), t.mesh().shape().names[size_t(axis)],
                           ToString(want[axis])));
  }
}

}  // namespace

DTensor FromStorage(std::shared_ptr<EagerSession> session, Tensor storage, const Shape& global,
                    const Sharding& sharding, const FromLocalOptions& options, const Site& site) {
  WEFT_CHECK(!options.requires_grad || IsFloating(storage.dtype()),
             fmt::format("{}: {} cannot require a gradient; expected a floating dtype", ToString(site),
                         Name(storage.dtype())));
  Var var = session->builder().FromLocal(std::move(storage), global, sharding, options.requires_grad);
  var.node().loc = site.loc;
  return DTensor(std::move(session), std::move(var));
}

DTensor DTensor::FromLocal(const Tensor& local, DeviceMesh& mesh, const Placements& placements, const Shape& global,
                           const FromLocalOptions& options, Loc loc) {
  Site site{"FromLocal", loc};
  const auto& session = EagerScope::Need(mesh, site);
  CheckTensor(local, site);
  std::string fault = ShapeFault(global);
  WEFT_CHECK(fault.empty(), fmt::format("{}: {}", ToString(site), fault));
  Sharding sharding = session->Place(placements, global, site);
  Shape extents = ExtentsOf(global, sharding, mesh);
  WEFT_CHECK(local.shape() == extents,
             fmt::format("{}: {} holds {} of {} placed {} on {}, got {}; pass the elements that the rank really holds, "
                         "without padding",
                         ToString(site), DescribeRank(mesh), ToString(extents), ToString(global), ToString(sharding),
                         ToString(mesh.shape()), ToString(local.shape())));
  Tensor padded = Resized(local, ChunkShape(global, sharding, mesh.shape()));
  return FromStorage(session, OnDevice(padded, *session), global, sharding, options, site);
}

DTensor DTensor::Of(const Var& value, Loc loc) {
  Site site{"DTensor::Of", loc};
  WEFT_CHECK(value.defined(), fmt::format("{}: expected a value, got an empty Var", ToString(site)));
  WEFT_CHECK(
      !value.node().values.empty(),
      fmt::format("{}: {} {} made at {} is traced and has no storage; expected a result of ops under an EagerScope",
                  ToString(site), Name(value.dtype()), ToString(value.shape()), ToString(value.node().loc)));
  EagerScope* scope = EagerScope::Current();
  WEFT_CHECK(scope, fmt::format("{}: no EagerScope is open on this thread; call it in the scope that made the value",
                                ToString(site)));
  int axes = scope->builder().ShardingOf(value).num_axes(), expected = scope->session()->mesh().shape().num_axes();
  WEFT_CHECK(axes == expected,
             fmt::format("{}: expected a value on the mesh {} of the open EagerScope, got one on {} axes",
                         ToString(site), ToString(scope->session()->mesh().shape()), axes));
  return DTensor(scope->session(), value);
}

void DTensor::CheckDefined(const Site& site) const {
  WEFT_CHECK(session_, fmt::format("{}: the DTensor is empty; assign one first", ToString(site)));
}

const Shape& DTensor::shape(Loc loc) const {
  CheckDefined({"shape", loc});
  return var_.shape();
}

DType DTensor::dtype(Loc loc) const {
  CheckDefined({"dtype", loc});
  return var_.dtype();
}

DeviceMesh& DTensor::mesh(Loc loc) const {
  CheckDefined({"mesh", loc});
  return session_->mesh();
}

const Sharding& DTensor::placements(Loc loc) const {
  CheckDefined({"placements", loc});
  return session_->builder().ShardingOf(var_);
}

bool DTensor::requires_grad(Loc loc) const {
  CheckDefined({"requires_grad", loc});
  return var_.node().requires_grad;
}

Tensor DTensor::Storage(Loc loc) const {
  CheckDefined({"Storage", loc});
  return session_->builder().ToLocal(var_, placements());
}

Tensor DTensor::ToLocal(Loc loc) const {
  CheckDefined({"ToLocal", loc});
  return Resized(Storage(), ExtentsOf(shape(), placements(), mesh()));
}

Tensor DTensor::FullTensor(Loc loc) const {
  CheckDefined({"FullTensor", loc});
  // Gathers a detached value, so that the gathered version is not kept with this one.
  DTensor own = Detach({}, loc);
  return session_->builder().ToLocal(own.var_, Sharding(mesh().shape().num_axes()));
}

double DTensor::Item(Loc loc) const {
  CheckDefined({"Item", loc});
  return session_->builder().ItemOf(var_, loc);
}

DTensor DTensor::Redistribute(const Placements& placements, Loc loc) const {
  Site site{"Redistribute", loc};
  CheckDefined(site);
  EagerBuilder& builder = session_->builder();
  Sharding asked = placements.Check(shape(), mesh().shape(), site, /*may_keep=*/true);
  CheckOnePartial(asked, mesh().shape(), site);
  Sharding target = builder.Resolve(asked, this->placements());
  CheckPartialStays(*this, target, site);
  return DTensor(session_, builder.Emit(Op::kReshard, {{"target", target}}, std::span(&var_, 1), loc)[0]);
}

DTensor DTensor::Detach(const FromLocalOptions& options, Loc loc) const {
  Site site{"Detach", loc};
  CheckDefined(site);
  return FromStorage(session_, Storage(), shape(), placements(), options, site);
}

DTensor::operator Var() const {
  WEFT_CHECK(session_, "Var(DTensor): the DTensor is empty; assign one first");
  if (!HasBuilder() || &CurrentBuilder() == &session_->builder()) return var_;
  EagerScope* scope = EagerScope::Current();
  bool eager = scope && &CurrentBuilder() == &scope->builder();
  // A leaf has no history, so another scope of its mesh and device may read it.
  bool alike = eager && &scope->session()->mesh() == &mesh() && scope->session()->device() == session_->device();
  if (alike && var_.node().op == Op::kLeaf) return var_;
  Fail(fmt::format(
      "Var(DTensor): {} made at {} belongs to another EagerScope than the ops here, which {}; use it in "
      "its own scope{}{}",
      ToString(*this), ToString(var_.node().loc), eager ? RunsOn(*scope->session()) : std::string("are traced"),
      eager ? ", or Detach() it where mesh and device are the same" : "",
      eager ? "" : ", pass it to the traced function as an argument, or make it an entry of its State"));
}

std::string ToString(const DTensor& t) {
  if (!t) return "an empty DTensor";
  return fmt::format("{} {} {} on {}", Name(t.dtype()), ToString(t.shape()), ToString(t.placements()),
                     ToString(t.mesh().shape()));
}

DTensor DistributeTensor(const Tensor& full, DeviceMesh& mesh, const Placements& placements,
                         const DistributeOptions& options, Loc loc) {
  Site site{"DistributeTensor", loc};
  const auto& session = EagerScope::Need(mesh, site);
  CheckTensor(full, site);
  Sharding sharding = session->Place(placements, full.shape(), site);
  Sharding replicated(mesh.shape().num_axes());
  Tensor same = OnDevice(Broadcasted(full, mesh, options.source, site), *session);
  Var whole = session->builder().FromLocal(std::move(same), full.shape(), replicated);
  return FromStorage(session, session->builder().ToLocal(whole, sharding), full.shape(), sharding,
                     {options.requires_grad}, site);
}

Tensor ValueOf(const Var& value, Loc loc) { return DTensor::Of(value, loc).FullTensor(loc); }

}  // namespace weft
