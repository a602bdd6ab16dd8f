#include "weft/parallel/step/update.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "weft/core/base/error.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/plans/mesh_axes.h"

namespace weft {
namespace {

Var StoredLeaf(const Parameter& p, const StepOptions& o) {
  ModelScope& scope = ModelScope::Current();
  if (!scope.HasCopy(p)) return p.Source();
  Var& leaf = scope.leaves[p.path()];
  if (!leaf.defined()) leaf = ParameterLeaf(p.path(), o.model.precision.params, p.shape(), scope.Stored(p));
  return leaf;
}

// Needs one all-reduce per axis: each sum of squares becomes a term of a Partial sum over all ranks, in which a
// replicated gradient counts once. Axes that gradients cross once per step are left out, because gradients have crossed
// them by now and all ranks along them hold the same values. The sums of gradients with one placement are added by one
// op: a GPU adds hundreds of scalars in the time that it takes to add two.
Var GlobalNorm(const Module& model, const std::vector<Var>& gradients, const StepOptions& o) {
  Sharding terms(o.model.mesh.num_axes());
  for (int a = 0; a < terms.num_axes(); a++) terms.Set(a, Partial());
  terms = MicroStepTarget(terms, o.model.mesh);
  std::vector<Var> squares;  // all of them first, so that a device can compute them together
  for (const Var& g : gradients) squares.push_back(Cast(SumOfSquares(g), ScalarType(o)));  // []
  std::map<std::string, std::vector<Var>> alike;                                           // by placement
  for (size_t i = 0; const Parameter* p : model.Parameters())
    alike[ToString(ModelScope::Current().Stored(*p))].push_back(Broadcast(squares[i++], 0, 1));  // [1]
  Var total;
  for (const auto& [placement, parts] : alike) {
    Var term = Reshard(SumAll(Concat(parts, 0)), terms);  // []
    total = total.defined() ? total + term : term;
  }
  return Sqrt(Reshard(total, Sharding(o.model.mesh.num_axes())));
}

// The scalars that the updates of all parameters share.
struct Factors {
  Var lr, scale, updates;             // []
  std::map<double, Var> scaled_lr{};  // [], by lr_scale; parameters with the same lr_scale share a node

  Var LrOf(double lr_scale) {
    if (lr_scale == 1) return lr;
    Var& scaled = scaled_lr[lr_scale];
    if (!scaled.defined()) scaled = Scale(lr, lr_scale);  // []
    return scaled;
  }
};
void UpdateOne(const Parameter& p, const Var& gradient, Factors& f, const StepOptions& o, UpdateResult& result) {
  ModuleScope path(p.path());
  ParameterRule rule = RuleOf(o.optimizer, p);
  SlotNames names = rule.slots();
  Sharding stored = ModelScope::Current().Stored(p);
  std::vector<Var> slots;
  for (const char* slot : names)
    slots.push_back(Leaf(rule.rule->EntryOf(slot, p), o.model.precision.params, p.shape(), stored));
  std::vector<Var> next = rule.rule->update({.parameter = p,
                                             .value = StoredLeaf(p, o),
                                             .gradient = gradient,
                                             .slots = std::move(slots),
                                             .lr = f.LrOf(rule.lr_scale),
                                             .scale = f.scale,
                                             .updates = f.updates,
                                             .options = rule.options});
  WEFT_CHECK(next.size() == 1 + names.size(),
             fmt::format("optimizer {}: expected the parameter and {} slots, got {} values", rule.rule->name,
                         names.size(), next.size()));
  result.writes.push_back({p.path(), next[0]});
  for (size_t i = 0; i < names.size(); i++) result.writes.push_back({rule.rule->EntryOf(names[i], p), next[i + 1]});
  if (const ModelScope& scope = ModelScope::Current(); scope.HasCopy(p))
    result.writes.push_back({CopyName(p.path()), Reshard(Cast(next[0], p.used_dtype()), scope.Copied(p))});
}

struct Total {
  Var loss, count;  // []
};
// An axis that gradients cross once per step is slow, so with such an axis one call reduces both numbers together.
Total TotalOf(const MicroSums& sums, const StepOptions& o) {
  ModuleScope path("loss");
  Sharding replicated(o.model.mesh.num_axes());
  Var loss = sums.loss.value, count = sums.count.value;  // []
  if (HasRole(o.model.mesh, &MeshAxis::reduces_once)) {
    const Var terms[] = {Broadcast(loss, 0, 1), Broadcast(count, 0, 1)};  // [1]
    Var both = Reshard(Concat(terms, 0), replicated);                     // [2]
    loss = SumAll(Slice(both, 0, 0, 1));                                  // []
    count = SumAll(Slice(both, 0, 1, 1));                                 // []
  }
  return {Cast(Reshard(loss, replicated), ScalarType(o)), Cast(Reshard(count, replicated), ScalarType(o))};
}

std::vector<Var> StoredGradients(const Module& model, const StepOptions& o, const MicroSums& sums) {
  std::vector<Var> gradients;
  auto gradient = sums.gradients.begin();
  for (const Parameter* p : model.Parameters()) {
    ModuleScope path(p->path());
    gradients.push_back(ReshardLike((gradient++)->value, StoredLeaf(*p, o), o.model.precision.wire));
  }
  return gradients;
}

}  // namespace

UpdateResult Update(const Module& model, const StepOptions& o, const MicroSums& sums) {
  OriginScope phase(Phase::kOptimizer, nullptr);
  ModuleScope scope("optimizer");
  Total total = TotalOf(sums, o);
  Factors f{.scale = Recip(Maximum(total.count, Full(1, ScalarType(o), {})))};  // []
  std::vector<Var> gradients = StoredGradients(model, o, sums);
  Var loss = total.loss * f.scale, norm;
  if (ScalesLoss(o)) f.scale = f.scale * Recip(Cast(LossSeed(o), ScalarType(o)));
  {
    ModuleScope clip("clip");
    norm = GlobalNorm(model, gradients, o) * f.scale;  // []
    if (o.clip > 0) f.scale = f.scale * Minimum(Full(1, norm.dtype(), {}), Scale(Recip(AddScalar(norm, 1e-6)), o.clip));
  }
  UpdateResult result{{{"loss", loss}, {"grad_norm", norm}, {"count", total.count}}, {}};
  f.lr = Leaf(entry::kLr, ScalarType(o), {});
  f.updates = Leaf(entry::kUpdates, DType::kI64, {});
  if (ScalesLoss(o)) {
    ScaledUpdate decided = DecideUpdate(norm, f.updates, o.loss_scale);
    f.updates = decided.updates;
    result.outputs.insert(result.outputs.end(), decided.outputs.begin(), decided.outputs.end());
    result.writes = std::move(decided.writes);
  }
  auto parameters = model.Parameters();
  for (size_t i = 0; i < parameters.size(); i++) UpdateOne(*parameters[i], gradients[i], f, o, result);
  return result;
}

std::vector<EntryInfo> UpdateEntries(const Module& model, const StepOptions& o) {
  ModelScope scope(o.model);
  std::vector<EntryInfo> entries;
  for (const Parameter* p : model.Parameters()) {
    ParameterRule rule = RuleOf(o.optimizer, *p);
    for (const char* slot : rule.slots())
      entries.push_back(
          {rule.rule->EntryOf(slot, *p), EntryKind::kMoment, o.model.precision.params, p->shape(), scope.Stored(*p)});
  }
  if (!ScalesLoss(o)) return entries;
  Sharding replicated(o.model.mesh.num_axes());
  entries.push_back({entry::kLossScale, EntryKind::kLossScale, DType::kF32, {}, replicated});
  for (const char* counter : {entry::kGoodSteps, entry::kSkipped})
    entries.push_back({counter, EntryKind::kLossScale, DType::kI64, {}, replicated});
  return entries;
}

}  // namespace weft
