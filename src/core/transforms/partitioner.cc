#include "weft/core/transforms/partitioner.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/base/shard.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/wire.h"
#include "weft/core/runtime/kernel.h"

namespace weft {
namespace {

// Returns the placement with every Partial resolved. Generators are created in it.
Sharding WithoutPartial(const Sharding& s) { return Dual(s); }

// Whether the operands and the result have the same dims and each may be sharded. Such an op may stay lazy if its
// operands are lazy.
bool IsPointwise(const Dims& dims) {
  return dims.out.size() == 1 && !dims.in.empty() && dims.blocked.empty() && dims.whole.empty() &&
         std::all_of(dims.in.begin(), dims.in.end(), [&](const std::string& labels) { return labels == dims.out[0]; });
}

// A sum over one axis of a maximum over another would be ambiguous.
void CheckOnePartial(const Sharding& s) {
  const Placement* first = nullptr;
  for (int a = 0; a < s.num_axes(); a++) {
    if (s[a].kind != Placement::kPartial) continue;
    WEFT_CHECK(!first || first->reduce == s[a].reduce,
               fmt::format("placement {}: two kinds of Partial never mix; reduce one of them first", ToString(s)));
    first = &s[a];
  }
}

// A rank's share of a sum may be larger than the sum. In f16 it may overflow even if the sum does not, and the shares
// depend on the mesh. So shares of f16 products are summed in f32. The range of bf16 is large enough.
bool WidensSum(const Node& node, const NodeSharding& choice) {
  return node.op == Op::kEinsum && node.outputs[0].dtype == DType::kF16 && choice.out[0].HasPartial() &&
         !node.attrs.IntOr("narrow", 0);
}

// A broadcast of size 1 has as many bytes as its operand, so it may pass the shares of a sum on like any linear op. All
// other broadcasts are made in the placement that a consumer wants, from the complete sum.
bool PassesShares(const Node& node, std::span<const Sharding> have) {
  return node.op == Op::kBroadcast && node.attrs.Int("size") == 1 && have[0].HasPartial();
}

// A lazy value is created by recursion over the lazy values before it, so long chains (an eager counter) are cut.
constexpr int kMaxLazyDepth = 64;

int Cost(const std::vector<Transition>& steps) {
  int cost = 0;
  for (const Transition& t : steps) cost += FindCollectiveRow(t.op)->cost;
  return cost;
}

}  // namespace

Partitioner::Partitioner(const PartitionOptions& options) : options_(options) {
  WEFT_CHECK(options.mesh.num_axes() <= kMaxAxes, fmt::format("mesh: at most {} axes", kMaxAxes));
}

Sharding Partitioner::Resolve(const Sharding& target, const Sharding& have) const {
  if (target.num_axes() == 0) return Sharding(mesh().num_axes());
  WEFT_CHECK(target.num_axes() == mesh().num_axes(),
             fmt::format("placement {} has {} axes, the mesh {} has {}", ToString(target), target.num_axes(),
                         ToString(mesh()), mesh().num_axes()));
  auto one = [&](int axis) { return mesh().sizes[size_t(axis)] == 1; };
  bool keeps = false;
  for (int a = 0; a < target.num_axes(); a++) keeps |= target[a].kind == Placement::kKeep;
  Sharding result = keeps ? have : Sharding(mesh().num_axes());
  // If some axes are kept, an axis that already shards the right dim keeps its place in that dim's order.
  auto stays = [&](int a) {
    return target[a].kind == Placement::kShard && result[a].kind == Placement::kShard && result[a].dim == target[a].dim;
  };
  for (int a = 0; a < target.num_axes(); a++)
    if (target[a].kind != Placement::kKeep && !stays(a))
      result.Set(a, target[a].kind == Placement::kPartial && !one(a) ? target[a] : Replicate());
  for (int order = 0; order < target.num_axes(); order++)
    for (int a = 0; a < target.num_axes(); a++)
      if (target[a].kind == Placement::kShard && target[a].order == order && result[a].kind != Placement::kShard &&
          !one(a))
        result.Set(a, target[a]);
  CheckOnePartial(result);
  return result;
}

ValueInfo Partitioner::LocalInfo(const ValueInfo& global, const Sharding& sharding) const {
  return {global.dtype, ChunkShape(global.shape, sharding, mesh()), global.shape, sharding};
}

void Partitioner::Place(const Var& global, const Sharding& sharding, Var local, const Node& origin) {
  Placed& placed = At(global);
  placed.sharding = sharding;
  if (local.defined()) placed.versions.push_back({sharding, origin.phase, std::move(local)});
}

Var Partitioner::EmitFrom(const Node& global, std::span<const Var> inputs, const Sharding& sharding,
                          const Node& origin) {
  return Var(EmitLocal(global.op, global.attrs, inputs, {LocalInfo(global.outputs[0], sharding)}, origin), 0);
}

Var Partitioner::ShapeOnly(const Var& global, const Sharding& sharding, const Node& origin) {
  Attrs attrs{{"value", 0.0}, {"shape_only", 1}};
  return Var(
      EmitLocal(Op::kFull, attrs, {}, {LocalInfo(global.node().outputs[size_t(global.index())], sharding)}, origin), 0);
}

bool Partitioner::Refuses(const Node& origin) const {
  return options_.check && asked_ == 0 && origin.op != Op::kReshard && origin.phase != Phase::kBackward;
}

// Returns the type in which the terms of a sum cross ranks, if it is not their own.
std::optional<DType> Partitioner::WireFor(const Transition& t, const Node& origin, DType terms) const {
  if (!ReducesOverRanks(t.op) || t.reduce != ReduceOp::kSum) return std::nullopt;
  bool exchanged = options_.exchange_terms && t.op == Op::kReduceScatter && terms == DType::kBF16;
  return exchanged ? DType::kBF16 : WireOf(origin.attrs);
}

Var Partitioner::Convert(Var local, const Sharding& have, const Sharding& want, const Node& origin, const Var& global) {
  for (const Transition& t : PlanTransitions(have, want)) {
    if (Refuses(origin) && IsCollective(t.op))
      FailAt(origin,
             fmt::format("needs {} as {} but it is {}: {} on axis \"{}\" would be inserted; reshard it explicitly",
                         ToString(global.shape()), ToString(want), ToString(have), Name(t.op),
                         mesh().names[size_t(t.axis)]));
    const CollectiveRow& row = *FindCollectiveRow(t.op);
    Attrs attrs{{"axis", t.axis}};
    if (row.joins) attrs.Set({row.joins, t.dim});
    if (row.cuts) attrs.Set({row.cuts, row.joins ? t.split_dim : t.dim});
    if (row.reduces) attrs.Set({"reduce", int(t.reduce)});
    if (std::optional<DType> wire = WireFor(t, origin, local.dtype())) attrs.Set({"wire", int(*wire)});
    ValueInfo info = LocalInfo(global.node().outputs[size_t(global.index())], t.after);
    info.dtype = local.dtype();
    local = Var(EmitLocal(t.op, std::move(attrs), std::span(&local, 1), {info}, origin), 0);
  }
  return want.HasPartial() ? local : AsType(local, global.dtype(), origin);
}

Var Partitioner::AsType(Var local, DType dtype, const Node& origin) {
  if (local.dtype() == dtype) return local;
  ValueInfo info = local.node().outputs[size_t(local.index())];
  info.dtype = dtype;
  return Var(EmitLocal(Op::kCast, {{"dtype", int(dtype)}}, std::span(&local, 1), {info}, origin), 0);
}

Var Partitioner::Whole(const Var& global, const Sharding& want, const Node& origin) {
  return AsType(Materialize(global, want, origin), global.dtype(), origin);
}

Var Partitioner::Materialize(const Var& global, const Sharding& want, const Node& origin) {
  Placed& placed = At(global);
  for (const Placed::Version& v : placed.versions)
    if (v.sharding == want && (!placed.regather || v.phase == origin.phase)) return v.local;
  Var local;
  if (placed.lazy || placed.regather) {
    local = MaterializeLazy(global, want, origin);
  } else {
    // Converts the version that is cheapest to convert: a resolved one or the original.
    const Placed::Version* best = nullptr;
    int best_cost = 0;
    for (const Placed::Version& v : placed.versions) {
      if (best && v.sharding.HasPartial()) continue;
      int cost = Cost(PlanTransitions(v.sharding, want));
      if (!best || cost < best_cost) {
        best = &v;
        best_cost = cost;
      }
    }
    WEFT_CHECK(best, fmt::format("partition: {} has no value yet", Name(global.node().op)));
    local = Convert(best->local, best->sharding, want, origin, global);
  }
  // A value that a wire has rounded belongs to the reshard, so it is not another version of `global`.
  if (!WireOf(origin.attrs)) At(global).versions.push_back({want, origin.phase, local});
  return local;
}

Var Partitioner::MaterializeLazy(const Var& global, const Sharding& want, const Node& origin) {
  const Node& node = global.node();
  Sharding plain = WithoutPartial(want);
  if (node.op == Op::kReshard && At(global).regather) {
    Sharding stored = At(node.inputs[0]).sharding;
    Var source = Materialize(node.inputs[0], stored, origin), gathered;
    {
      Asked asked(*this);
      gathered = Convert(source, stored, At(global).sharding, origin, global);
    }
    return Convert(gathered, At(global).sharding, want, origin, global);
  }
  if (node.op == Op::kReshard) return Materialize(Var(At(global).source), want, origin);
  // Zeros on every rank are a valid Partial sum, so a zero is created directly in the wanted placement.
  if (node.op == Op::kFull && node.attrs.Float("value") == 0) return EmitFrom(node, {}, want, origin);
  std::vector<Var> inputs;
  if (node.op == Op::kBroadcast) {
    Sharding in(mesh().num_axes());
    int dim = int(node.attrs.Int("dim"));
    for (int d = 0; d < node.inputs[0].rank(); d++)
      for (int axis : plain.DimAxes(d < dim ? d : d + 1)) in.Set(axis, Shard(d));
    inputs.push_back(Materialize(node.inputs[0], in, origin));
  } else {
    bool scalars = RecordOf(node.op).generator;  // the step and row of random ops
    for (const Var& in : node.inputs)
      inputs.push_back(Materialize(in, scalars ? Sharding(mesh().num_axes()) : plain, origin));
  }
  return Convert(EmitFrom(node, inputs, plain, origin), plain, want, origin, global);
}

void Partitioner::Process(const std::shared_ptr<Node>& node) {
  if (node->op == Op::kLeaf) {
    Sharding sharding = Resolve(node->attrs.Target("placement"), Sharding(mesh().num_axes()));
    Place(Var(node, 0), sharding, EmitFrom(*node, {}, sharding, *node), *node);
  } else if (node->op == Op::kReshard) {
    ProcessReshard(node);
  } else {
    ProcessOp(node);
  }
}

namespace {
// Returns the placement without shards of `dim`.
Sharding WithoutShards(Sharding placement, int dim) {
  for (int axis : placement.DimAxes(dim)) placement.Set(axis, Replicate());
  return placement;
}
}  // namespace

void Partitioner::ProcessReshard(const std::shared_ptr<Node>& node) {
  const Var& x = node->inputs[0];
  bool like = node->inputs.size() == 2;
  bool free = like && At(node->inputs[1]).lazy;  // a generator has no fixed placement to be like
  int dim = int(node->attrs.IntOr("dim", -1));
  Sharding have = At(x).sharding;
  Sharding target = free       ? have
                    : like     ? Dual(At(node->inputs[1]).sharding)
                    : dim >= 0 ? WithoutShards(have, dim)
                               : Resolve(node->attrs.Target("target"), have);
  Placed& placed = At(Var(node, 0));
  placed.sharding = target;
  placed.lazy = At(x).lazy;
  placed.lazy_depth = At(x).lazy_depth;
  if (placed.lazy) placed.source = At(x).source.defined() ? At(x).source : x;
  placed.regather = node->attrs.IntOr("regather", 0) && !placed.lazy && !(have == target);
  if (placed.lazy || placed.regather) return;
  Var local = Materialize(x, target, *node);
  At(Var(node, 0)).versions.push_back({target, node->phase, local});
}

void Partitioner::ProcessOp(const std::shared_ptr<Node>& node) {
  const OpRecord& record = RecordOf(node->op);
  Dims dims = record.dims(*node);
  absl::InlinedVector<Sharding, 3> have;
  absl::InlinedVector<bool, 3> flexible;
  int depth = 0;
  for (const Var& in : node->inputs) {
    const Placed& placed = At(in);
    have.push_back(placed.sharding);
    flexible.push_back(placed.lazy);
    if (placed.lazy) depth = std::max(depth, placed.lazy_depth + 1);
  }
  bool all_lazy = !flexible.empty() && std::all_of(flexible.begin(), flexible.end(), [](bool f) { return f; });
  NodeSharding choice = ChooseSharding(*node, dims, have, flexible, mesh());
  bool generated = record.generator && !PassesShares(*node, have);
  if (generated || (all_lazy && IsPointwise(dims) && depth <= kMaxLazyDepth)) {
    Placed& placed = At(Var(node, 0));
    placed.sharding = WithoutPartial(choice.out[0]);
    placed.lazy = true;
    placed.lazy_depth = depth;
    return;
  }
  bool no_kernel = options_.kernels && !options_.kernels->Has(node->op) && record.fallback;
  if (choice.needs_fallback) OnFallback(*node);
  if (choice.needs_fallback || no_kernel) return ProcessFallback(node);
  absl::InlinedVector<Var, 3> inputs;
  for (size_t i = 0; i < node->inputs.size(); i++)
    inputs.push_back(int(i) == record.shape_operand ? ShapeOnly(node->inputs[i], choice.in[i], *node)
                                                    : Materialize(node->inputs[i], choice.in[i], *node));
  bool widened = WidenShares(*node, inputs);
  Attrs attrs = node->attrs;
  if (WidensSum(*node, choice)) {
    attrs.Set({"wide", 1});
    widened = true;
  }
  absl::InlinedVector<ValueInfo, 1> infos;
  for (size_t i = 0; i < node->outputs.size(); i++) {
    infos.push_back(LocalInfo(node->outputs[i], choice.out[i]));
    if (widened) infos.back().dtype = AccumulateType(infos.back().dtype);
  }
  std::shared_ptr<Node> local = EmitLocal(node->op, std::move(attrs), inputs, std::move(infos), *node);
  for (size_t i = 0; i < node->outputs.size(); i++) Place(Var(node, int(i)), choice.out[i], Var(local, int(i)), *node);
}

// A linear op passes the shares of a sum on. If one operand came in a wider type, all operands and the result get it.
bool Partitioner::WidenShares(const Node& node, absl::InlinedVector<Var, 3>& inputs) {
  auto wider = [&](size_t i) { return inputs[i].dtype() != node.inputs[i].dtype(); };
  bool any = false;
  for (size_t i = 0; i < inputs.size(); i++) any |= wider(i);
  if (!any || node.op == Op::kCast) return false;  // a cast names the type of its result
  for (size_t i = 0; i < inputs.size(); i++)
    if (IsFloating(inputs[i].dtype())) inputs[i] = AsType(inputs[i], AccumulateType(inputs[i].dtype()), node);
  return true;
}

void Partitioner::ProcessFallback(const std::shared_ptr<Node>& node) {
  const OpRecord& record = RecordOf(node->op);
  if (!record.fallback)
    FailAt(*node, "a dim that it needs whole is sharded, and it has no composition; reshard the operand");
  TraceBuilder trace;
  Outputs results;
  {
    BuilderScope scope(trace);
    OriginScope origin(node->phase, node.get());
    results = record.fallback(*node);
  }
  Asked asked(*this);
  for (const auto& inner : trace.nodes()) Process(inner);
  for (size_t i = 0; i < results.size(); i++) {
    Placed copy = At(results[i]);
    // A lazy result would refer to an inner node later, but the inner nodes exist only during this call.
    if (copy.lazy) {
      Var local = Materialize(results[i], copy.sharding, *node);
      copy = At(results[i]);
      copy.lazy = false;
    }
    At(Var(node, int(i))) = std::move(copy);
  }
}

}  // namespace weft
