#include "weft/dist/group/call_record.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

std::string ToString(const CallRecord& r) {
  std::string_view site = r.site;
  std::string call =
      ToString(Collective{.op = r.op, .count = r.count, .dtype = r.dtype, .reduce = r.reduce, .peer = r.peer});
  return fmt::format("{}{}{}", call, site.empty() ? "" : " at ", site);
}

CallRecord RecordOf(int group, uint64_t sequence, const Collective& call) {
  return {.group = group,
          .sequence = sequence,
          .op = call.op,
          .dtype = call.dtype,
          .reduce = call.reduce,
          .peer = call.peer,
          .count = call.count,
          .site = call.site,
          .start = std::chrono::steady_clock::now()};
}

int CallRecorder::AddGroup(std::string name, std::vector<int> ranks) {
  std::lock_guard lock(mutex_);
  groups_.push_back({std::move(name), std::move(ranks)});
  return int(groups_.size()) - 1;
}

std::vector<RecordedGroup> CallRecorder::Groups() const {
  std::lock_guard lock(mutex_);
  return groups_;
}

uint64_t CallRecorder::Begin(int group, uint64_t sequence, const Collective& call) {
  CallRecord begun = RecordOf(group, sequence, call);
  std::lock_guard lock(mutex_);
  CallRecord& record = ring_[next_ % ring_.size()];
  if (next_ >= ring_.size() && !record.done) open_.emplace_back(next_ - ring_.size(), record);
  record = begun;
  return next_++;
}

void CallRecorder::Finish(uint64_t ticket) {
  std::lock_guard lock(mutex_);
  if (next_ - ticket <= ring_.size())
    ring_[ticket % ring_.size()].done = true;
  else
    std::erase_if(open_, [&](const auto& open) { return open.first == ticket; });
}

void CallRecorder::set_replays(Source source) {
  std::lock_guard lock(mutex_);
  replays_ = std::move(source);
}

std::vector<CallRecord> CallRecorder::Last(size_t n) const {
  std::vector<CallRecord> records, replayed;
  Source replays;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [ticket, record] : open_) records.push_back(record);
    uint64_t held = std::min<uint64_t>({next_, ring_.size(), n});
    for (uint64_t i = next_ - held; i < next_; i++) records.push_back(ring_[i % ring_.size()]);
    replays = replays_;
  }
  if (replays) replayed = replays();
  if (replayed.empty()) return records;
  records.insert(records.end(), replayed.begin(), replayed.end());
  std::stable_sort(records.begin(), records.end(),
                   [](const CallRecord& a, const CallRecord& b) { return a.start < b.start; });
  size_t older = records.size() - std::min(records.size(), n);
  auto end = std::remove_if(records.begin(), records.begin() + std::ptrdiff_t(older),
                            [](const CallRecord& record) { return record.done; });
  records.erase(end, records.begin() + std::ptrdiff_t(older));
  return records;
}

std::string CallRecorder::Describe(size_t n) const {
  auto now = std::chrono::steady_clock::now();
  std::string text;
  for (const CallRecord& r : Last(n)) {
    std::string_view site = r.site;
    double ago = std::chrono::duration<double>(now - r.start).count();
    std::string group = [&] {
      std::lock_guard lock(mutex_);
      return groups_[size_t(r.group)].name;
    }();
    text += fmt::format("\n  #{} {} {} x {} on \"{}\"{}{}, {:.3f} s ago, {}", r.sequence, Name(r.op), Name(r.dtype),
                        r.count, group, site.empty() ? "" : " at ", site, ago, r.done ? "done" : "not done");
  }
  return text;
}

}  // namespace weft
