#include "weft/parallel/step/micro_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/plans/mesh_axes.h"

namespace weft {
namespace {

// Prepares a gradient for a sum or an update. Casts it to the reduction's dtype. With fsdp, reshards it to the stored
// placement of the parameter, except on axes that gradients cross once per step. On those axes it stays Partial.
Var Reducible(const Var& gradient, const Parameter& p, const StepOptions& o) {
  OriginScope origin(Phase::kBackward, &gradient.node());
  Var g = gradient;
  if (g.dtype() != o.model.precision.reduce)
    g = EmitOne(Op::kCast, {{"dtype", int(o.model.precision.reduce)}, {"parameter_gradient", 1}}, {g}, g.node().loc);
  if (o.model.fsdp == Fsdp::kNone) return g;
  return Reshard(g, MicroStepTarget(ModelScope::Current().Stored(p), o.model.mesh), o.model.precision.wire);
}

struct Rows {
  int64_t first, count;
};

// Returns rows of a slot [B, T], placed as the slot is. On several ranks of the batch's axes, rows move between them.
// They are token ids, which are few bytes.
Var SlotRows(const char* slot, const Rows& rows, const StepOptions& o) {
  Sharding batch = BatchPlacement(o.model.mesh), whole(o.model.mesh.num_axes());
  Var all = Leaf(slot, DType::kI32, {o.rows, o.tokens}, batch);  // [B, T]
  if (rows.count == o.rows) return all;
  return Reshard(Slice(Reshard(all, whole), 0, rows.first, rows.count), batch);  // [rows, T]
}

Loss LossOfRows(Model& model, const Rows& rows, const StepOptions& o, const CrossEntropyOptions& loss) {
  return model.LossOf(SlotRows(entry::kTokens, rows, o), SlotRows(entry::kTargets, rows, o), loss);
}

Loss LossOfSlots(Model& model, const StepOptions& o, const CrossEntropyOptions& loss) {
  return LossOfRows(model, {0, o.rows}, o, loss);
}

// Random ops draw the numbers of the global rows, so both halves draw those that the whole batch would.
Loss LossOfHalf(Model& model, const Rows& rows, const StepOptions& o, const Var& first_row) {
  Builder& builder = CurrentBuilder();
  builder.RestartRandom();
  builder.first_row = rows.first ? first_row + Full(double(rows.first), DType::kI64, {}) : first_row;
  return LossOfRows(model, rows, o, o.loss);
}

// Returns the rows of the first half: so many that the halves together put no more rows on a rank than the whole does.
int64_t HalfOf(const StepOptions& o) {
  int64_t ranks = RanksWith(o.model.mesh, &MeshAxis::shards_batch);
  return std::max(o.rows / 2 / ranks * ranks, std::min(ranks, o.rows / 2));
}

Loss LossOfHalves(Model& model, const StepOptions& o) {
  Var first_row = CurrentBuilder().first_row;
  int64_t half = HalfOf(o);
  ModelScope::Current().gathers.emplace();
  Loss a = LossOfHalf(model, {0, half}, o, first_row), b = LossOfHalf(model, {half, o.rows - half}, o, first_row);
  ModelScope::Current().gathers.reset();
  return {a.sum + b.sum, a.count + b.count};
}

}  // namespace

std::vector<NamedValue> MicroSums::All() const {
  std::vector<NamedValue> all{loss, count};
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

MicroSums SumsOf(const Loss& loss, std::span<const Var> gradients, const Module& model, const StepOptions& o) {
  auto parameters = model.Parameters();
  WEFT_CHECK(gradients.size() == parameters.size(),
             fmt::format("expected a gradient for each of {} parameters, got {}", parameters.size(), gradients.size()));
  MicroSums sums{{entry::kLossSum, loss.sum}, {entry::kCount, loss.count}, {}};
  for (size_t i = 0; i < parameters.size(); i++)
    sums.gradients.push_back({entry::Accumulator(parameters[i]->path()), Reducible(gradients[i], *parameters[i], o)});
  return sums;
}

MicroSums Micro(Model& model, const StepOptions& o) {
  Builder& builder = CurrentBuilder();
  builder.RestartRandom();
  builder.step = Leaf(entry::kStep, DType::kI64, {});
  builder.first_row = Leaf(entry::kFirstRow, DType::kI64, {});
  Loss loss = o.halves && o.rows > 1 ? LossOfHalves(model, o) : LossOfSlots(model, o, o.loss);
  return SumsOf(loss, Grad(loss, model.Parameters(), ScalesLoss(o) ? LossSeed(o) : Var()), model, o);
}

MicroSums Plus(const MicroSums& a, const MicroSums& b) {
  OriginScope origin(Phase::kBackward, nullptr);
  auto plus = [](const NamedValue& x, const NamedValue& y) { return NamedValue{x.name, x.value + y.value}; };
  MicroSums sums{plus(a.loss, b.loss), plus(a.count, b.count), {}};
  for (size_t i = 0; i < a.gradients.size(); i++) sums.gradients.push_back(plus(a.gradients[i], b.gradients[i]));
  return sums;
}

std::vector<NamedValue> EvalSums(Model& model, const StepOptions& o) {
  Loss loss = LossOfSlots(model, o, {.ignore_index = o.loss.ignore_index});  // without smoothing, which is for training
  return {{"sum", loss.sum}, {"count", loss.count}};
}

std::vector<EntryInfo> SlotEntries(const StepOptions& o) {
  std::vector<EntryInfo> entries;
  Sharding batch = BatchPlacement(o.model.mesh), replicated(o.model.mesh.num_axes());
  for (const char* slot : {entry::kTokens, entry::kTargets})
    entries.push_back({slot, EntryKind::kSlot, DType::kI32, {o.rows, o.tokens}, batch});
  for (const char* slot : {entry::kStep, entry::kFirstRow, entry::kUpdates})
    entries.push_back({slot, EntryKind::kSlot, DType::kI64, {}, replicated});
  entries.push_back({entry::kLr, EntryKind::kSlot, ScalarType(o), {}, replicated});
  return entries;
}

}  // namespace weft
