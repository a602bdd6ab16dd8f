#include "weft/core/compile/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "weft/core/compile/host_overlap.h"
#include "weft/core/compile/stream_overlap.h"
#include "weft/core/ir/collective_row.h"

namespace weft {
namespace {

ValueInfo InfoOf(const TensorView& view) {
  ValueInfo info{view.dtype, {}, {}, {}};
  for (int d = 0; d < view.rank; d++) info.shape.push_back(view.dim(d).capacity);
  return info;
}

}  // namespace

Executable::Executable(Plan plan, const Runtime& runtime, const Binder& bind, BufferPtr arena)
    : plan_(std::move(plan)), runtime_(runtime), arena_(std::move(arena)) {
  if (!arena_) arena_ = runtime_.memory().Allocate(plan_.arena_bytes);
  WEFT_CHECK(arena_->bytes() >= plan_.arena_bytes,
             fmt::format("arena of {} bytes, the plan needs {}", arena_->bytes(), plan_.arena_bytes));
  BindEntries(bind);
  BindCalls();
  BindBatches();
  BindOverlap();
  BindOutputs();
}

void Executable::BindEntries(const Binder& bind) {
  auto bind_entry = [&](const std::string& name, const ValueInfo& info) {
    if (!entries_.contains(name)) entries_[name] = bind(name, info);
    const Tensor& entry = entries_[name];
    WEFT_CHECK(entry.bytes() >= BytesOf(info),
               fmt::format("bind \"{}\": expected storage of {} {}, got {} {}", name, Name(info.dtype),
                           ToString(info.shape), Name(entry.dtype()), ToString(entry.shape())));
  };
  for (const auto& leaf : plan_.leaves) {
    bind_entry(leaf->attrs.Text("name"), leaf->outputs[0]);
    CheckBound(*leaf, entries_[leaf->attrs.Text("name")]);
  }
  for (const Step& step : plan_.steps)
    for (const PlannedView& v : step.out)
      if (v.place.kind == Place::kEntry) bind_entry(v.place.entry, InfoOf(v.view));
  for (const Copy& copy : plan_.copies)
    if (copy.to.place.kind == Place::kEntry) bind_entry(copy.to.place.entry, InfoOf(copy.to.view));
}

void Executable::BindCalls() {
  operands_.reserve(plan_.steps.size());
  for (const Step& step : plan_.steps) {
    Operands& views = operands_.emplace_back();
    for (auto [from, to] : {std::pair{&step.in, &views.in}, std::pair{&step.out, &views.out}})
      for (const PlannedView& planned : *from) {
        to->push_back(planned.view);
        to->back().data = Address(planned.place);
      }
    void* workspace = step.workspace_bytes ? static_cast<char*>(arena_->data()) + step.workspace_offset : nullptr;
    KernelCall& call = calls_.emplace_back(CallOf(*step.node, views.in, views.out, runtime_));
    call.workspace = workspace;
    call.workspace_bytes = step.workspace_bytes;
  }
  for (const Copy& copy : plan_.copies)
    copies_.push_back({Address(copy.from.place), Address(copy.to.place), copy.bytes});
}

void Executable::BindBatches() {
  for (size_t i = 0; i < calls_.size(); i++) {
    const KernelRow& row = runtime_.kernels().Row(plan_.steps[i].node->op);
    bool joins = !batches_.empty() && batches_.back().row == &row && AxisOf(i) == AxisOf(batches_.back().first) &&
                 MayJoin(row, plan_.steps[i]) && MayJoin(row, plan_.steps[batches_.back().first]);
    for (size_t j = joins ? batches_.back().first : i; joins && j < i; j++) joins = !Touch(calls_[j], calls_[i]);
    if (joins)
      batches_.back().count++;
    else
      batches_.push_back({&row, i, 1});
  }
}

// Returns the mesh axis over which a step moves bytes, or nullopt if the step is no collective.
std::optional<int64_t> Executable::AxisOf(size_t step) const {
  const Node& node = *plan_.steps[step].node;
  return IsCollective(node.op) ? std::optional(node.attrs.Int("axis")) : std::nullopt;
}

void Executable::BindOverlap() {
  StreamedDevice* device = StreamsOf(runtime_.memory());
  std::map<int64_t, int> lane_of;  // by axis
  std::vector<int> lanes;
  for (const Batch& batch : batches_) {
    std::optional<int64_t> axis = AxisOf(batch.first);
    lanes.push_back(axis ? lane_of.emplace(*axis, int(lane_of.size())).first->second : OverlapPlan::kMain);
  }
  has_collectives_ = !lane_of.empty();
  if (!has_collectives_ || !runtime_.Overlaps() || (!device && runtime_.device != DeviceKind::kCpu)) return;
  auto calls_of = [this](size_t i) { return std::span(calls_).subspan(batches_[i].first, batches_[i].count); };
  OverlapPlan plan = PlanOverlap(lanes, [&](size_t i, size_t j) {
    for (const KernelCall& a : calls_of(i))
      for (const KernelCall& b : calls_of(j))
        if (Touch(a, b)) return true;
    return false;
  });
  if (device)
    overlap_ = std::make_unique<StreamOverlap>(*device, std::move(plan));
  else
    overlap_ = std::make_unique<HostOverlap>(std::move(plan));
}

void Executable::BindOutputs() {
  for (const auto& [name, planned] : plan_.outputs) {
    const ValueInfo info = InfoOf(planned.view);
    bool in_arena = planned.place.kind == Place::kArena;
    outputs_[name] = in_arena ? Tensor(arena_, planned.place.offset, info.dtype, info.shape)
                              : entries_.at(planned.place.entry).Reshaped(info.shape);
  }
}

void* Executable::Address(const Place& place) const {
  if (place.kind == Place::kArena) return static_cast<char*>(arena_->data()) + place.offset;
  if (place.kind == Place::kEntry) return entries_.at(place.entry).data();
  return nullptr;
}

void Executable::IssueBatch(const Batch& batch) {
  if (batch.count > 1)
    batch.row->run_many(std::span(calls_).subspan(batch.first, batch.count));
  else
    batch.row->run(calls_[batch.first]);
}

// Issues all batches. If `timeline` is not null, marks each on the stream that it is issued to.
void Executable::IssueBatches(Timeline* timeline) {
  if (timeline && overlap_ && !StreamsOf(runtime_.memory())) return TimeThreads(*timeline);
  auto issue = [&](size_t i) {
    if (timeline) timeline->Mark();
    IssueBatch(batches_[i]);
    if (timeline) timeline->Mark();
  };
  if (overlap_) return overlap_->Issue(issue);
  for (size_t i = 0; i < batches_.size(); i++) issue(i);
}

// Batches run in several threads at the same time, so each notes its own times.
void Executable::TimeThreads(Timeline& timeline) {
  std::vector<int64_t> times(2 * batches_.size());
  overlap_->Issue([&](size_t i) {
    times[2 * i] = SteadyNanoseconds();
    IssueBatch(batches_[i]);
    times[2 * i + 1] = SteadyNanoseconds();
  });
  timeline.Add(times);
}

void Executable::Issue(Timeline* timeline) {
  auto mark = [timeline] {
    if (timeline) timeline->Mark();
  };
  IssueBatches(timeline);
  if (copies_.empty()) return;
  mark();
  for (const BoundCopy& copy : copies_) runtime_.memory().Copy(copy.to, copy.from, copy.bytes);
  mark();
}

void Executable::Run(Timeline& timeline) { Issue(&timeline); }

void Executable::Run() {
  constexpr int kWarmRuns = 2;
  if (recording_) return recording_->Replay();
  // Collectives must not be issued one by one while a recording that uses the same group is still running.
  if (has_collectives_) runtime_.memory().Synchronize();
  if (runs_++ < kWarmRuns) return Issue();
  recording_ = runtime_.memory().Record([this] { Issue(); });
  if (recording_) return recording_->Replay();
  Issue();
}

const Tensor& Executable::Output(const std::string& name) const {
  auto it = outputs_.find(name);
  WEFT_CHECK(it != outputs_.end(), fmt::format("the program has no output \"{}\"", name));
  return it->second;
}

}  // namespace weft
