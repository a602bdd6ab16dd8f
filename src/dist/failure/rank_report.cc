#include "weft/dist/failure/rank_report.h"

#include <cstring>
#include <type_traits>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
static_assert(std::is_trivially_copyable_v<CallRecord>);

// Writes values as they are in memory. Lists and texts follow their length.
struct Writer {
  std::string bytes;
  template <class T>
  void Put(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Put(const std::string& text) {
    Put(uint64_t(text.size()));
    bytes += text;
  }
};

struct Reader {
  std::string_view bytes;
  bool ok = true;
  std::string_view Take(uint64_t n) {
    ok = ok && n <= bytes.size();
    if (!ok) return {};
    std::string_view taken = bytes.substr(0, n);
    bytes.remove_prefix(n);
    return taken;
  }
  template <class T>
  void Get(T* value) {
    std::string_view taken = Take(sizeof(*value));
    if (ok) std::memcpy(static_cast<void*>(value), taken.data(), sizeof(*value));
  }
  void Get(std::string* text) { *text = std::string(Take(Length(1))); }
  // Reads the length of a list of elements that take at least `least` bytes each.
  uint64_t Length(size_t least) {
    uint64_t n = 0;
    Get(&n);
    ok = ok && n <= bytes.size() / least;
    return ok ? n : 0;
  }
};

}  // namespace

// Encodes times as ages, because the clocks of two hosts differ.
std::string Encode(const RankReport& report) {
  Writer w;
  auto now = Clock::now();
  w.Put(report.failed ? (now - *report.failed).count() : Clock::duration::rep(-1));
  w.Put(report.error);
  w.Put(report.exchanges);
  w.Put(report.exchange_failed);
  w.Put(report.activity);
  w.Put(uint64_t(report.groups.size()));
  for (const RecordedGroup& group : report.groups) {
    w.Put(group.name);
    w.Put(uint64_t(group.ranks.size()));
    for (int rank : group.ranks) w.Put(rank);
  }
  w.Put(uint64_t(report.calls.size()));
  for (const CallRecord& call : report.calls) {
    w.Put(call);
    w.Put((now - call.start).count());
  }
  return std::move(w.bytes);
}

bool Decode(std::string_view bytes, RankReport* report) {
  Reader r{bytes};
  auto now = Clock::now();
  Clock::duration::rep age = -1;
  r.Get(&age);
  if (age >= 0) report->failed = now - Clock::duration(age);
  r.Get(&report->error);
  r.Get(&report->exchanges);
  r.Get(&report->exchange_failed);
  r.Get(&report->activity);
  report->groups.resize(r.Length(2 * sizeof(uint64_t)));
  for (RecordedGroup& group : report->groups) {
    r.Get(&group.name);
    group.ranks.resize(r.Length(sizeof(int)));
    for (int& rank : group.ranks) r.Get(&rank);
  }
  report->calls.resize(r.Length(sizeof(CallRecord)));
  for (CallRecord& call : report->calls) {
    r.Get(&call);
    r.Get(&age);
    call.start = now - Clock::duration(age);
    r.ok = r.ok && call.group >= 0 && size_t(call.group) < report->groups.size();
  }
  return r.ok;
}

}  // namespace weft
