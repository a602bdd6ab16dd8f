#include "weft/parallel/nn/module.h"

#include <fmt/format.h>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {
thread_local ModelScope* current = nullptr;

bool KeepsAll(const Sharding& target) {
  for (int a = 0; a < target.num_axes(); a++)
    if (target[a].kind != Placement::kKeep) return false;
  return true;
}
}  // namespace

ModelScope::ModelScope(const Options& options) : options_(options), previous_(current) { current = this; }
ModelScope::~ModelScope() { current = previous_; }
ModelScope& ModelScope::Current(Loc loc) {
  WEFT_CHECK(current, fmt::format("model at {}: a layer or a model is called in a function that Compile has made, or "
                                  "under StateScope scope(state), because its parameters are in a State; no State is "
                                  "in use here",
                                  ToString(loc)));
  return *current;
}

Sharding ModelScope::Used(const Parameter& parameter) const {
  return options_.plan.ParameterPlacement(parameter.path(), int(parameter.shape().size()), options_.mesh);
}
Sharding ModelScope::Stored(const Parameter& parameter) const {
  Sharding used = Used(parameter);
  return options_.fsdp == Fsdp::kNone ? used : options_.plan.FsdpPlacement(used, parameter.shape(), options_.mesh);
}

bool ModelScope::HasCopy(const Parameter& parameter) const {
  if (options_.fsdp == Fsdp::kGradients) return true;
  return options_.copies && parameter.used_dtype() != parameter.stored_dtype();
}
Sharding ModelScope::Copied(const Parameter& parameter) const {
  return options_.fsdp == Fsdp::kGradients ? Used(parameter) : Stored(parameter);
}

void ModelScope::SetWritten(const std::string& entry, Var value) {
  if (value.defined())
    leaves[entry] = std::move(value);
  else
    leaves.erase(entry);
  casts.erase(entry);
  if (std::string copy = CopyName(""); entry.starts_with(copy)) casts.erase(entry.substr(copy.size()));
}

Module::Module(Module* parent, const std::string& name)
    : name_(name), path_(parent && !parent->path_.empty() ? parent->path_ + "." + name : name) {
  if (parent) parent->children_.push_back(this);
}

std::vector<const Parameter*> Module::Parameters() const {
  std::vector<const Parameter*> all = parameters_;
  for (const Module* child : children_)
    for (const Parameter* p : child->Parameters()) all.push_back(p);
  return all;
}

std::vector<const Module*> Module::Modules() const {
  std::vector<const Module*> all{this};
  for (const Module* child : children_)
    for (const Module* module : child->Modules()) all.push_back(module);
  return all;
}

Var Module::Boundary(Var x, const char* point, const Loc& loc) const {
  CheckAssigned(x, path_.empty() ? "model" : path_.c_str(), loc);
  const ModelScope::Options& options = ModelScope::Current(loc).options();
  Sharding target = options.plan.Target(path_, point, x.rank(), options.mesh);
  return KeepsAll(target) ? x : Reshard(x, target, loc);
}

Var Layer::operator()(Var x, Loc loc) {
  call_site_ = loc;
  ModuleScope scope(name());
  return Boundary(Forward(Boundary(std::move(x), "input", loc)), "output", loc);
}

Parameter::Parameter(Module* owner, const std::string& name, Shape shape, ParameterInit init, bool decay, UsedType used,
                     int product_inputs)
    : module_(owner->path()),
      name_(name),
      path_(module_.empty() ? name : module_ + "." + name),
      shape_(std::move(shape)),
      init_(init),
      decay_(decay),
      used_(used),
      product_inputs_(product_inputs) {
  owner->parameters_.push_back(this);
}

DType Parameter::used_dtype() const {
  DType compute = ModelScope::Current().options().precision.compute;
  return used_ == kAccumulate ? AccumulateType(compute) : compute;
}

DType Parameter::stored_dtype() const {
  const Precision& precision = ModelScope::Current().options().precision;
  return precision.stored_as_used ? used_dtype() : precision.params;
}

Var Parameter::Source() const {
  ModelScope& scope = ModelScope::Current();
  bool copy = scope.HasCopy(*this);
  Var& leaf = scope.leaves[copy ? CopyName(path_) : path_];
  if (leaf.defined()) return leaf;
  leaf = copy ? ParameterLeaf(CopyName(path_), used_dtype(), shape_, scope.Copied(*this))
              : ParameterLeaf(path_, stored_dtype(), shape_, scope.Stored(*this));
  return leaf;
}

Var Parameter::Use(Loc loc) const {
  ModelScope& scope = ModelScope::Current(loc);
  Var& cast = scope.casts[path_];
  if (!cast.defined()) cast = Cast({Source(), loc}, used_dtype());
  if (scope.options().fsdp != Fsdp::kFull) return cast;
  Sharding used = scope.Used(*this);
  if (used == scope.Stored(*this)) return cast;
  // Each use gathers its own copy, and with options.regather another one in the backward pass, so that a gathered
  // weight lives only as long as its block runs.
  Var own, &gathered = scope.gathers ? (*scope.gathers)[path_ + " " + ToString(loc)] : own;
  if (!gathered.defined())
    gathered = EmitOne(Op::kReshard, {{"target", used}, {"regather", int(scope.options().regather)}}, {cast}, loc);
  return gathered;
}

}  // namespace weft
