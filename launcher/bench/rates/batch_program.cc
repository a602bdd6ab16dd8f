#include "launcher/bench/rates/batch_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "launcher/bench/compiled_case.h"
#include "weft/core/base/error.h"
#include "weft/core/base/hash.h"
#include "weft/core/base/rng.h"
#include "weft/core/compile/measure.h"
#include "weft/core/host/rounding.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/storage.h"
#include "weft/core/ops/structural.h"
#include "weft/parallel/step/arena_windows.h"

namespace weft {
namespace {

constexpr size_t kAligned = 256;
size_t Rounded(size_t bytes) { return RoundUpBytes(bytes, kAligned); }

// Elementwise ops that reuse the storage of an operand write as many bytes elsewhere. But an op that changes a part of
// its operand, or adds to it, would copy all of it.
bool WritesInPlace(const Step& step, size_t output) {
  const Place& to = step.out[output].place;
  if (to.kind == Place::kEntry) return true;
  const OpRecord& record = Record(step.node->op);
  return (record.replaces >= 0 || record.accumulates) &&
         std::any_of(step.in.begin(), step.in.end(),
                     [&](const PlannedView& in) { return in.place.kind == to.kind && in.place.offset == to.offset; });
}

BufferPtr MemoryOf(const Runtime& runtime, size_t bytes, std::span<const BatchProgram* const> programs,
                   std::span<const WindowUse> windows) {
  if (windows.empty() || !runtime.mesh) return runtime.memory().Allocate(bytes);
  StableHash layout;
  for (const BatchProgram* program : programs) {
    layout.Mix(program->operand_bytes().arena);
    layout.Mix(WindowLayoutOf(program->plan()));
  }
  auto& mesh = static_cast<DeviceMesh&>(*runtime.mesh);  // every CollectiveContext is one
  absl::StatusOr<BufferPtr> memory = AllocateWindows(mesh, {.uses = windows, .bytes = bytes, .layout = layout.value()});
  if (!memory.ok()) Fail(WindowFault(windows, memory.status()));
  return *memory;
}

}  // namespace

bool WritesInPlace(const Plan& plan, size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++)
    for (size_t k = 0; k < plan.steps[i].out.size(); k++)
      if (WritesInPlace(plan.steps[i], k)) return true;
  return false;
}

bool MayRepeat(const Plan& plan, size_t first, size_t count) {
  return count == 1 && plan.steps[first].node->op != Op::kBroadcast && !WritesInPlace(plan, first, count);
}

BatchProgram::BatchProgram(const Plan& plan, const std::vector<Run>& runs, const Runtime& runtime) : runtime_(runtime) {
  for (const Step& step : plan.steps) made_[step.node.get()] = true;
  for (const Run& run : runs) {
    // The results of a batch of several calls live until all of them are made. Else a call would write where another
    // one did, and they would not join. So do those of a collective, for which a kernel would wait to write there.
    // A broadcast that nobody reads would be a view.
    Op op = plan.steps[run.first].node->op;
    bool keep = run.count > 1 || op == Op::kBroadcast || (runtime.Overlaps() && IsCollective(op));
    for (int64_t copy = 0; copy < run.copies; copy++)
      for (size_t i = run.first; i < run.first + run.count; i++) Add(plan, i, keep);
  }
  program_.mesh = runtime_.mesh_shape;
  MeasureBackends(program_.graph, runtime_);
  plan_ = MakePlan(program_, runtime_);
  std::map<std::string, ValueInfo> operands;
  for (const auto& leaf : plan_.leaves) operands.emplace(leaf->attrs.Text("name"), leaf->outputs[0]);
  for (const NamedValue& write : program_.graph.writes)  // an entry that is only written is no leaf
    operands.emplace(write.name, write.value.node().outputs[size_t(write.value.index())]);
  OperandBytes& o = operand_bytes_;
  for (const auto& [name, info] : operands)
    if (IsFloating(info.dtype))
      (Writes(name) ? o.written : IsEntry(name) ? o.entries : o.arena) += Rounded(BytesOf(info));
}

IntegerRange BatchProgram::IntegersOf(const std::string& entry) const {
  auto it = integers_.find(entry);
  return it == integers_.end() ? IntegerRange{} : it->second;
}

Var BatchProgram::LeafOf(const Var& value, const std::string& name) {
  auto leaf = std::make_shared<Node>();
  leaf->op = Op::kLeaf;
  leaf->attrs.Set({"name", name});
  leaf->outputs.push_back(value.node().outputs[size_t(value.index())]);
  leaf->scope = value.node().scope;
  leaf->id = int64_t(program_.graph.nodes.size());
  program_.graph.nodes.push_back(leaf);
  return Var(leaf, 0);
}

// Returns the operand in the program: a leaf for what a step of the plan makes, and the same view for what a view
// shows. A part of a joined value, and that value, is a leaf too: a slice of a leaf would be copied.
Var BatchProgram::Cloned(const Var& value) {
  const Node& node = value.node();
  if (node.op == Op::kLeaf || made_.contains(&node) || IsPacked(node.attrs)) {
    auto [it, is_new] = leaves_.emplace(std::pair(&node, value.index()), Var());
    if (!is_new) return it->second;
    std::string name = fmt::format("operand{}", leaves_.size());
    if (node.op == Op::kLeaf) entries_[name] = true;
    return it->second = LeafOf(value, name);
  }
  std::shared_ptr<Node>& view = views_[&node];
  if (!view) {
    auto clone = std::make_shared<Node>(node);
    for (Var& in : clone->inputs) in = Cloned(in);
    clone->id = int64_t(program_.graph.nodes.size());
    program_.graph.nodes.push_back(clone);
    view = clone;
  }
  return Var(view, value.index());
}

void BatchProgram::Add(const Plan& plan, size_t index, bool keep) {
  const Step& step = plan.steps[index];
  auto node = std::make_shared<Node>(*step.node);
  auto integers = Record(node->op).integers;
  for (size_t i = 0; i < node->inputs.size(); i++) {
    Var& in = node->inputs[i];
    in = Cloned(in);
    if (integers && in.node().op == Op::kLeaf && !IsFloating(in.dtype()))
      integers_[in.node().attrs.Text("name")] = integers(*step.node, int(i));
  }
  AddWrites(step, node);
  node->id = int64_t(program_.graph.nodes.size());
  program_.graph.nodes.push_back(node);
  for (size_t k = 0; keep && k < node->outputs.size(); k++)
    program_.graph.outputs.push_back({fmt::format("result{}.{}", node->id, k), Var(node, int(k))});
}

void BatchProgram::AddWrites(const Step& step, const std::shared_ptr<Node>& node) {
  for (size_t k = 0; k < step.out.size(); k++) {
    if (!WritesInPlace(step, k)) continue;
    std::string entry = fmt::format("entry{}.{}", program_.graph.nodes.size(), k);
    for (size_t i = 0; i < step.in.size(); i++) {
      const Place &in = step.in[i].place, &out = step.out[k].place;
      bool same = in.kind == out.kind && in.offset == out.offset && in.entry == out.entry;
      if (same && node->inputs[i].node().op == Op::kLeaf) entry = node->inputs[i].node().attrs.Text("name");
    }
    written_[entry] = true;
    program_.graph.writes.push_back({entry, Var(node, int(k))});
  }
}

Operands::Sizes Operands::SizesFor(std::span<const BatchProgram* const> programs) {
  Sizes sizes{.arena = 0, .operands = kAligned, .entries = kAligned, .written = kAligned};
  for (const BatchProgram* program : programs) {
    sizes.arena = std::max(sizes.arena, Rounded(program->plan().arena_bytes));
    sizes.operands = std::max(sizes.operands, program->operand_bytes().arena);
    sizes.entries = std::max(sizes.entries, program->operand_bytes().entries);
    sizes.written = std::max(sizes.written, program->operand_bytes().written);
  }
  return sizes;
}

size_t Operands::BytesFor(std::span<const BatchProgram* const> programs) {
  Sizes sizes = SizesFor(programs);
  return sizes.arena + sizes.operands + sizes.entries + sizes.written;
}

Operands::Operands(const Runtime& runtime, std::span<const BatchProgram* const> programs,
                   std::span<const WindowUse> windows)
    : runtime_(runtime), sizes_(SizesFor(programs)) {
  constexpr size_t kLeast = 1 << 10, kMost = 1 << 23;  // bytes of random numbers, which are then repeated
  size_t largest = std::max({sizes_.operands, sizes_.entries, sizes_.written});
  auto elements = int64_t(std::clamp(largest, kLeast, kMost) / SizeOf(DType::kBF16));
  random_ = RandomTensor(runtime, DType::kBF16, {elements}, "operands");
  memory_ = MemoryOf(runtime, sizes_.arena + sizes_.operands, programs, windows);
  FillRandomly(static_cast<char*>(memory_->data()) + sizes_.arena, memory_->bytes() - sizes_.arena);
  for (auto [buffer, bytes] : {std::pair(&entries_, sizes_.entries), {&written_, sizes_.written}}) {
    *buffer = runtime.memory().Allocate(bytes);
    FillRandomly((*buffer)->data(), bytes);
  }
}

void Operands::FillRandomly(void* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += random_.bytes())
    runtime_.memory().Copy(static_cast<char*>(data) + at, random_.data(), std::min(random_.bytes(), bytes - at));
}

Tensor Operands::Integers(const ValueInfo& info, IntegerRange range) {
  Tensor& made = integers_[fmt::format("{} {} {} {}", Name(info.dtype), ToString(info.shape), range.least, range.most)];
  if (made.defined()) return made;
  Tensor host = Tensor::Zeros(info.dtype, info.shape);
  Dispatch(info.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < host.num_elements(); i++) {
      uint32_t bits = Philox(7, 0, uint64_t(i))[0];
      host.as<T>()[i] = T(float(range.least + int64_t(bits) % (range.most - range.least + 1)));
    }
  });
  return made = host.To(runtime_.memory());
}

std::unique_ptr<Executable> Operands::Bind(const BatchProgram& program) {
  size_t in_arena = sizes_.arena, in_entries = 0, in_written = 0;
  auto bind = [&](const std::string& name, const ValueInfo& info) {
    if (!IsFloating(info.dtype)) {
      Tensor integers = Integers(info, program.IntegersOf(name));
      return program.Writes(name) ? integers.Clone() : integers;
    }
    bool writes = program.Writes(name), entry = program.IsEntry(name);
    size_t& offset = writes ? in_written : entry ? in_entries : in_arena;
    Tensor operand(writes ? written_ : entry ? entries_ : memory_, offset, info.dtype, info.shape);
    offset += Rounded(operand.bytes());
    return operand;
  };
  Plan plan = program.plan();
  return std::make_unique<Executable>(std::move(plan), program.runtime(), bind, memory_);
}

std::vector<size_t> LeftOut(std::span<const BatchProgram* const> programs, size_t bytes) {
  std::vector<size_t> order(programs.size()), out;
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return Operands::BytesFor(programs.subspan(a, 1)) < Operands::BytesFor(programs.subspan(b, 1));
  });
  std::vector<const BatchProgram*> kept;
  for (size_t i : order) kept.push_back(programs[i]);
  for (; !kept.empty() && Operands::BytesFor(kept) > bytes; kept.pop_back()) out.push_back(order[kept.size() - 1]);
  return out;
}

}  // namespace weft
