#include "weft/core/compile/overlap/host_overlap.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "weft/core/base/error.h"

namespace weft {

HostOverlap::HostOverlap(OverlapPlan plan) : plan_(std::move(plan)), number_(plan_.entries.size()) {
  for (int i = 0; i < plan_.lanes; i++) lanes_.push_back(std::make_unique<Lane>());
  for (size_t i = 0; i < plan_.entries.size(); i++) {
    int lane = plan_.entries[i].lane;
    if (lane == OverlapPlan::kMain) continue;
    lanes_[size_t(lane)]->entries.push_back(i);
    number_[i] = uint32_t(lanes_[size_t(lane)]->entries.size());
  }
  try {
    for (auto& lane : lanes_) lane->thread = std::thread([this, &lane = *lane] { Loop(lane); });
  } catch (const std::system_error& e) {  // some threads have started
    Stop();
    Fail(
        fmt::format("expected {} threads for the collectives of a program, one per mesh axis, got an error: {}; "
                    "raise the limits of ulimit -u and -v, or use parallel.overlap=never",
                    plan_.lanes, e.what()));
  }
}

HostOverlap::~HostOverlap() { Stop(); }

void HostOverlap::Stop() {
  stop_ = true;
  for (auto& lane : lanes_) {
    lane->issued.Add(1);
    if (lane->thread.joinable()) lane->thread.join();
  }
}

void HostOverlap::Issue(absl::FunctionRef<void(size_t)> issue) {
  ThrowFailure();
  issue_ = &issue;
  for (auto& lane : lanes_) lane->before = lane->issued.load();
  std::exception_ptr error;
  try {
    IssueInOrder(issue);
  } catch (...) {
    error = std::current_exception();
  }
  Drain();
  if (error) SetFailure(error);
  ThrowFailure();
}

void HostOverlap::IssueInOrder(absl::FunctionRef<void(size_t)> issue) {
  for (size_t i = 0; i < plan_.entries.size(); i++) {
    const OverlapPlan::Entry& entry = plan_.entries[i];
    if (entry.lane != OverlapPlan::kMain) {
      lanes_[size_t(entry.lane)]->issued.Add(1);
      continue;
    }
    WaitFor(entry.waits_for);
    ThrowFailure();
    issue(i);
  }
}

void HostOverlap::Loop(Lane& lane) {
  for (uint32_t done = 0;; done++) {
    for (uint32_t issued = done; issued == done;) issued = lane.issued.WaitWhile(done, WaitWord::Deadline::max());
    if (stop_) return;
    size_t i = lane.entries[done - lane.before];
    WaitFor(plan_.entries[i].waits_for);
    RunBeside(i);
    lane.done.Add(1);
  }
}

void HostOverlap::RunBeside(size_t i) {
  if (failed_) return;  // a collective failed, and its group is unusable
  try {
    (*issue_)(i);
  } catch (...) {
    SetFailure(std::current_exception());
  }
}

void HostOverlap::WaitFor(std::span<const size_t> collectives) {
  for (size_t i : collectives) {
    Lane& lane = *lanes_[size_t(plan_.entries[i].lane)];
    WaitUntil(lane, lane.before + number_[i]);
  }
}

void HostOverlap::WaitUntil(Lane& lane, uint32_t done) {
  for (uint32_t now = lane.done.load(); int32_t(now - done) < 0;)
    now = lane.done.WaitWhile(now, WaitWord::Deadline::max());
}

void HostOverlap::Drain() {
  for (auto& lane : lanes_) WaitUntil(*lane, lane->issued.load());
}

void HostOverlap::SetFailure(std::exception_ptr error) {
  std::lock_guard lock(error_mutex_);
  if (!error_) error_ = std::move(error);
  failed_ = true;
}

void HostOverlap::ThrowFailure() {
  if (!failed_) return;
  std::lock_guard lock(error_mutex_);
  std::rethrow_exception(error_);
}

}  // namespace weft
