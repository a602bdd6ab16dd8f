#include "weft/parallel/program/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <type_traits>

#include "weft/core/base/shard.h"
#include "weft/core/host/rounding.h"
#include "weft/core/host/suggest.h"
#include "weft/core/ops/leaf.h"
#include "weft/parallel/program/program.h"

namespace weft {
namespace {

ModelScope::Options ModelOptions(const MeshShape& mesh, const StateOptions& o) {
  return {.mesh = mesh,
          .plan = o.plan,
          .precision = o.precision,
          .fsdp = o.fsdp,
          .regather = o.regather,
          .copies = o.copies};
}

void CheckLike(const State::Entry& entry, const std::string& name, const Var& value, const Loc& loc) {
  WEFT_CHECK(value.defined() && value.dtype() == entry.local.dtype() && value.shape() == entry.global,
             fmt::format("Write at {}: expected {} {} for entry \"{}\", got {}", ToString(loc),
                         Name(entry.local.dtype()), ToString(entry.global), name,
                         value.defined() ? fmt::format("{} {}", Name(value.dtype()), ToString(value.shape()))
                                         : std::string("an empty Var")));
}

void CheckShape(const std::string& name, const Shape& global, const Loc& loc) {
  std::string fault = ShapeFault(global);
  WEFT_CHECK(fault.empty(), fmt::format("state at {}: entry {:?}: {}", ToString(loc), name, fault));
}

// Returns "there is no entry "v"; did you mean "w"?", or with the first entries if none is similar.
std::string Missing(const std::string& name, const std::map<std::string, State::Entry>& entries) {
  std::vector<std::string> names;
  for (const auto& [known, entry] : entries)
    if (known != State::kCalls) names.push_back(known);
  std::string text = fmt::format("there is no entry {:?}", name), near = DidYouMean(name, names);
  if (!near.empty()) return text + near;
  if (names.empty()) return text + "; the State is empty, and Add or Init adds entries";
  return fmt::format("{}; the entries are {}", text, FirstFew(names, 8));
}

}  // namespace

State::State(DeviceMesh& mesh, const StateOptions& options, Loc loc)
    : model_(ModelOptions(mesh.shape(), options)), coords_(mesh.coords()), seed_(options.seed) {
  session_ = EagerSession::Open(mesh, {.seed = options.seed}, binder(), {"State", loc});
  device_ = &session_->memory();
  Add(kCalls, DType::kI64, {}, Sharding(mesh.shape().num_axes()), /*saved=*/true, loc);
  SetScalar(kCalls, 1);
}

State::State(MeshShape mesh, Coords coords, DeviceRuntime& device)
    : model_{.mesh = std::move(mesh)}, coords_(std::move(coords)), device_(&device) {}

State::~State() = default;
State::State(State&&) noexcept = default;

State::Entry& State::Add(const std::string& name, DType dtype, const Shape& global, const Sharding& sharding,
                         bool saved, Loc loc) {
  CheckNew(name, loc);
  CheckShape(name, global, loc);
  Sharding placed = sharding.num_axes() ? sharding : Sharding(mesh().num_axes());
  return (*entries_)[name] = {global, placed, Tensor::Zeros(dtype, ChunkShape(global, placed, mesh()), *device_),
                              saved};
}

void State::CheckNew(const std::string& name, const Loc& loc) const {
  WEFT_CHECK(!Has(name), fmt::format("state at {}: there is an entry {:?} already; Write gives it another value",
                                     ToString(loc), name));
}

void State::AddTogether(std::span<const NewEntry> entries, Loc loc) {
  std::vector<size_t> offsets;
  std::vector<Shape> shapes;
  size_t bytes = 0;
  for (const NewEntry& e : entries) {
    CheckNew(e.name, loc);
    CheckShape(e.name, e.global, loc);
    shapes.push_back(ChunkShape(e.global, e.sharding, mesh()));
    offsets.push_back(bytes);
    bytes += RoundUpBytes(size_t(NumElements(shapes.back())) * SizeOf(e.dtype), kTogether);
  }
  BufferPtr buffer = device_->Allocate(bytes);
  device_->Fill(buffer->data(), 0, bytes);
  for (size_t i = 0; i < entries.size(); i++) {
    const NewEntry& e = entries[i];
    (*entries_)[e.name] = {e.global, e.sharding, Tensor(buffer, offsets[i], e.dtype, shapes[i])};
  }
}

State::Entry& State::At(const std::string& name, Loc loc) {
  auto it = entries_->find(name);
  WEFT_CHECK(it != entries_->end(), fmt::format("state at {}: {}", ToString(loc), Missing(name, *entries_)));
  return it->second;
}

TensorView State::View(const std::string& name) {
  const Entry& e = At(name);
  return MakeView(e.local.data(), e.local.dtype(), e.global, e.sharding, mesh(), coords_);
}

void State::SetScalar(const std::string& name, double value) {
  Tensor& local = At(name).local;
  WEFT_CHECK(local.num_elements() == 1,
             fmt::format("state: expected \"{}\" to be a scalar, got {}", name, ToString(local.shape())));
  if (local.device().kind != DeviceKind::kCpu) {
    Tensor host = Tensor::Scalar(value, local.dtype());
    device_->Copy(local.data(), host.data(), host.bytes());
    return device_->Synchronize();
  }
  Dispatch(local.dtype(), [&](auto zero) {  // in place, without the allocation of a Tensor::Scalar
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>)
      *local.as<T>() = T(value);
    else
      *local.as<T>() = T(float(value));
  });
}

int64_t State::calls() { return int64_t(At(kCalls).local.To(CpuRuntime()).Item()); }
void State::CountCall() { SetScalar(kCalls, double(calls() + 1)); }

Binder State::binder() const {
  return [entries = entries_](const std::string& name, const ValueInfo&) {
    auto it = entries->find(name);
    WEFT_CHECK(it != entries->end(), "state: " + Missing(name, *entries));
    return it->second.local;
  };
}

Var State::Read(const std::string& name, Loc loc) {
  const Entry& entry = At(name, loc);
  EntryScope* scope = EntryScope::Current();
  WEFT_CHECK(scope,
             fmt::format("Read at {}: entry \"{}\" is read inside of a function that is compiled over the State, "
                         "or under a StateScope; Value gives it elsewhere",
                         ToString(loc), name));
  if (Var written = scope->Written(name); written.defined()) return written;
  // The gradient of a ParameterLeaf stays Partial, so its sums over ranks are completed once, in the stored placement.
  if (IsFloating(entry.local.dtype()))
    return ParameterLeaf(name, entry.local.dtype(), entry.global, entry.sharding, loc);
  return Leaf(name, entry.local.dtype(), entry.global, entry.sharding, loc);
}

void State::Write(const std::string& name, const Var& value, Loc loc) {
  CheckLike(At(name, loc), name, value, loc);
  WriteEntry(name, value, loc);
}

void State::CheckOnMesh(const char* what) const {
  WEFT_CHECK(session_,
             fmt::format("state: {} needs a State on a DeviceMesh, got only the shape {}", what, ToString(mesh())));
}

DTensor State::Value(const std::string& name, Loc loc) {
  CheckOnMesh("Value");
  const Entry& entry = At(name, loc);
  return FromStorage(session_, entry.local.Clone(), entry.global, entry.sharding, {}, {"Value", loc});
}

const std::shared_ptr<EagerSession>& State::session() const {
  CheckOnMesh("a call");
  return session_;
}

Runtime State::runtime() const {
  const DeviceMesh& mesh = session()->mesh();
  return RuntimeOf(mesh.context(), session()->mesh(), device_->device().kind);
}

OptimizerStep& State::optimizer() const {
  WEFT_CHECK(optimizer_, "state: it has no optimizer; Init makes a State with one");
  return *optimizer_;
}

struct StateScope::Scopes {
  EagerScope eager;
  ModelScope model;
  EntryScope entries;
  int exceptions = std::uncaught_exceptions();
  Scopes(State& state, Loc loc) : eager(state.session(), loc), model(state.model()), entries(eager.builder(), state) {}
};
StateScope::StateScope(State& state, Loc loc) : state_(state), scopes_(std::make_unique<Scopes>(state, loc)) {
  scopes_->eager.BeginStep(state.calls());
}
StateScope::~StateScope() {
  // After an exception the device may be lost, and the next scope would not continue this one anyway.
  bool has_drawn = scopes_->eager.builder().HasDrawn() && scopes_->exceptions == std::uncaught_exceptions();
  scopes_.reset();
  if (has_drawn) state_.CountCall();
}

}  // namespace weft
