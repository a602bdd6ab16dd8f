#include "core/compile/executable.h"

#include <fmt/format.h>

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
  BindOutputs();
}

void Executable::BindEntries(const Binder& bind) {
  auto bind_entry = [&](const std::string& name, const ValueInfo& info) {
    if (!entries_.contains(name)) entries_[name] = bind(name, info);
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
  calls_.reserve(plan_.steps.size());
  for (const Step& step : plan_.steps) {
    Call& call = calls_.emplace_back();
    call.run = runtime_.kernels().Row(step.node->op).run;
    for (auto [from, to] : {std::pair{&step.in, &call.in}, std::pair{&step.out, &call.out}})
      for (const PlannedView& planned : *from) {
        to->push_back(planned.view);
        to->back().data = Address(planned.place);
      }
    void* workspace = step.workspace_bytes ? static_cast<char*>(arena_->data()) + step.workspace_offset : nullptr;
    call.call = {&step.node->attrs,    call.in,          call.out,     workspace,
                 step.workspace_bytes, runtime_.context, runtime_.mesh};
  }
  for (const Copy& copy : plan_.copies)
    copies_.push_back({Address(copy.from.place), Address(copy.to.place), copy.bytes});
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

void Executable::Issue() {
  for (const Call& call : calls_) call.run(call.call);
  for (const BoundCopy& copy : copies_) runtime_.memory().Copy(copy.to, copy.from, copy.bytes);
}

void Executable::Run() {
  constexpr int kWarmRuns = 2;
  if (recording_) return recording_->Replay();
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
