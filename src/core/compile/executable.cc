#include "weft/core/compile/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/core/compile/overlap/host_overlap.h"
#include "weft/core/compile/overlap/stream_overlap.h"

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
  planned_ = std::make_unique<PlannedCalls>(plan_, runtime_, [this](const Place& place) { return Address(place); });
  for (const Copy& copy : plan_.copies)
    copies_.push_back({Address(copy.from.place), Address(copy.to.place), copy.bytes});
}

void Executable::BindOverlap() {
  StreamedDevice* device = StreamsOf(runtime_.memory());
  if (!planned_->has_collectives() || !runtime_.Overlaps() || (!device && runtime_.device != DeviceKind::kCpu)) return;
  if (device)
    overlap_ = std::make_unique<StreamOverlap>(*device, planned_->Overlap());
  else
    overlap_ = std::make_unique<HostOverlap>(planned_->Overlap());
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
    batch.row->run_many(planned_->CallsOf(batch));
  else
    batch.row->run(calls()[batch.first]);
}

// Issues all batches. If `timeline` is not null, marks each on the stream that it is issued to.
void Executable::IssueBatches(Timeline* timeline) {
  if (timeline && overlap_ && !StreamsOf(runtime_.memory())) return TimeThreads(*timeline);
  auto issue = [&](size_t i) {
    if (timeline) timeline->Mark();
    IssueBatch(batches()[i]);
    if (timeline) timeline->Mark();
  };
  if (overlap_) return overlap_->Issue(issue);
  for (size_t i = 0; i < batches().size(); i++) issue(i);
}

// Batches run in several threads at the same time, so each notes its own times.
void Executable::TimeThreads(Timeline& timeline) {
  std::vector<int64_t> times(2 * batches().size());
  overlap_->Issue([&](size_t i) {
    times[2 * i] = SteadyNanoseconds();
    IssueBatch(batches()[i]);
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
  if (planned_->has_collectives()) runtime_.memory().Synchronize();
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
