#include "weft/dist/failure/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "weft/dist/net/rank_list.h"

namespace weft {
namespace {

using State = RankReport::State;

// A call and the rank that made it.
struct Made {
  int rank = -1;
  const CallRecord* call = nullptr;
};
using Calls = std::vector<Made>;

std::string ReasonOf(const RankReport& report) { return report.error.empty() ? "it gave no reason" : report.error; }

// Whether two records with the same sequence number describe the same call. Counts may differ per rank for the V
// variants.
bool Alike(const CallRecord& a, const CallRecord& b) {
  if (a.op != b.op) return false;
  if (a.op == CollectiveOp::kBarrier) return true;
  const CollectiveTraits& traits = Traits(a.op);
  return a.dtype == b.dtype && (traits.own_counts || a.count == b.count) && (!traits.reduces || a.reduce == b.reduce) &&
         (!traits.has_peer || a.peer == b.peer);
}

struct Judgement {
  const std::vector<RankReport>& reports;

  const RankReport& At(int rank) const { return reports[size_t(rank)]; }
  const RecordedGroup& GroupOf(const Made& made) const { return At(made.rank).groups[size_t(made.call->group)]; }
  // "all_reduce #57 on dp"
  std::string Name(const Made& made) const {
    return fmt::format("{} #{} on {}", weft::Name(made.call->op), made.call->sequence, GroupOf(made).name);
  }

  // All recorded collectives. Sends and receives are left out, because they are numbered separately.
  template <class Fn>
  void ForEachCall(Fn fn) const {
    for (size_t r = 0; r < reports.size(); r++)
      for (const CallRecord& call : reports[r].calls)
        if (!IsPointToPoint(call.op)) fn(Made{int(r), &call});
  }

  // The unfinished calls, oldest first.
  Calls Waiting() const {
    Calls waiting;
    ForEachCall([&](const Made& made) {
      if (!made.call->done) waiting.push_back(made);
    });
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const Made& a, const Made& b) { return a.call->start < b.call->start; });
    return waiting;
  }

  const CallRecord* LastDone(int rank) const {
    auto& calls = At(rank).calls;
    auto done = std::find_if(calls.rbegin(), calls.rend(), [](const CallRecord& call) { return call.done; });
    return done == calls.rend() ? nullptr : &*done;
  }
  // Returns "; the last call it finished: all_reduce #56 on dp", or "" if that is unknown.
  std::string After(int rank) const {
    const CallRecord* last = LastDone(rank);
    return last ? fmt::format("; the last call it finished: {}", Name({rank, last})) : "";
  }

  bool IsBefore(const Made& a, const Made& b) const;
  std::string Lateness(int rank) const;
  std::string Gone(int rank, const char* how) const;
  Verdict IsGone(State state, const char* how) const;
  Verdict Died() const;
  std::string WaitedFor(const std::set<int>& ranks) const;
  bool IsCut(int a, int b) const;
  Verdict Cut() const;
  bool IsUsual(const Made& made) const;
  const Made& Right(const Calls& members, const Calls& kin) const;
  Verdict OtherCall() const;
  Verdict Missing() const;
  Verdict OtherOrder() const;
  Verdict LateExchange() const;
  Verdict FirstError() const;
  bool IsMissing(const Made& wait, int rank, std::span<const uint64_t> made) const;
  std::string MissedBy(int rank, std::span<const uint64_t> made) const;
  std::vector<int> Absent(const Made& wait) const;
};

// Returns why a rank has not made the call that others wait in.
std::string Judgement::Lateness(int rank) const {
  const RankReport& report = At(rank);
  if (!report.activity.empty()) return "is late, it is " + report.activity;
  return report.state == State::kLeft ? "left first" : "failed first";
}

// Whether `a` comes before `b` in the program, which all ranks run: some rank made both, `a` first. Start times do not
// show this, because ranks that share no group run at their own pace.
bool Judgement::IsBefore(const Made& a, const Made& b) const {
  auto is = [](const CallRecord& call, const Made& made) {
    return !IsPointToPoint(call.op) && call.group == made.call->group && call.sequence == made.call->sequence;
  };
  return std::any_of(reports.begin(), reports.end(), [&](const RankReport& report) {
    auto& calls = report.calls;
    auto at_a = std::find_if(calls.begin(), calls.end(), [&](const CallRecord& call) { return is(call, a); });
    return at_a != calls.end() && std::any_of(at_a + 1, calls.end(), [&](const CallRecord& c) { return is(c, b); });
  });
}

// Describes the collective in which others waited for any of the ranks. If none waited, they were between two
// collectives.
std::string Judgement::WaitedFor(const std::set<int>& missed) const {
  Calls waiting = Waiting(), for_it;
  for (const Made& made : waiting) {
    const std::vector<int>& ranks = GroupOf(made).ranks;
    if (std::any_of(ranks.begin(), ranks.end(), [&](int r) { return missed.contains(r); })) for_it.push_back(made);
  }
  if (!for_it.empty()) {
    Made first = for_it[0];
    for (const Made& made : for_it)
      if (IsBefore(made, first)) first = made;
    std::set<int> waited;
    for (const Made& made : for_it)
      if (Name(made) == Name(first)) waited.insert(made.rank);
    std::vector<int> ranks(waited.begin(), waited.end());
    return fmt::format("{}, {}, in which rank{} {} waited{}", Name(first), ToString(*first.call),
                       ranks.size() == 1 ? "" : "s", RankList(ranks), missed.size() == 1 ? " for it" : "");
  }
  Made last;
  ForEachCall([&](const Made& made) {
    if (!last.call || made.call->start > last.call->start) last = made;
  });
  if (!last.call) return "before any collective";
  return fmt::format("{} {}", last.call->done ? "after" : "during", Name(last));
}

std::string Judgement::Gone(int rank, const char* how) const {
  return fmt::format("{} {} first: {}", Who(reports, rank), how, WaitedFor({rank}));
}

Verdict Judgement::IsGone(State state, const char* how) const {
  for (size_t r = 0; r < reports.size(); r++)
    if (reports[r].state == state) return {int(r), Gone(int(r), how)};
  return {};
}

// A launcher that loses a host ends the ranks on other hosts. So if one rank died and another is silent, the silent
// rank may have been first. A rank that is only slow to answer is silent too.
Verdict Judgement::Died() const {
  Verdict verdict = IsGone(State::kDied, "died");
  Verdict silent = IsGone(State::kSilent, "fell silent");
  if (verdict.rank >= 0 && silent.rank >= 0)
    verdict.text += fmt::format("; {} does not answer: if its host is lost, that was first", Who(reports, silent.rank));
  return verdict;
}

// A cut requires that each of the two that answered did not reach the other, and that a third rank reached the one that
// did not answer.
bool Judgement::IsCut(int a, int b) const {
  auto reaches = [&](int from, int to) {
    return !std::count(At(from).unreached.begin(), At(from).unreached.end(), to);
  };
  auto is_seen = [&](int rank, int by) { return At(by).state == State::kAnswered && by != rank && reaches(by, rank); };
  bool found = false;
  for (auto [one, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (At(one).state != State::kAnswered) continue;
    if (reaches(one, other)) return false;
    bool seen = At(other).state == State::kAnswered;
    for (int r = 0; r < int(reports.size()) && !seen; r++) seen = is_seen(other, r);
    found |= seen;
  }
  return found;
}

Verdict Judgement::Cut() const {
  for (int a = 0; a < int(reports.size()); a++)
    for (int b = a + 1; b < int(reports.size()); b++)
      if (IsCut(a, b))
        return {a, fmt::format(
                       "{} and {} lost their connection first: neither reaches the other, and others reach both: {}",
                       Who(reports, a), Who(reports, b), WaitedFor({a, b}))};
  return {};
}

// Whether the rank made this call the last time that it had made the calls before it, at the same places. A training
// step repeats the calls of the previous step.
bool Judgement::IsUsual(const Made& made) const {
  constexpr std::ptrdiff_t kBefore = 3;
  auto& calls = At(made.rank).calls;
  auto same = [](const CallRecord& a, const CallRecord& b) {
    return a.group == b.group && Alike(a, b) && std::string_view(a.site) == std::string_view(b.site);
  };
  std::ptrdiff_t here = made.call - calls.data();
  for (std::ptrdiff_t then = here - 1; then >= kBefore; then--)
    if (std::equal(calls.begin() + (then - kBefore), calls.begin() + then, calls.begin() + (here - kBefore), same))
      return same(calls[size_t(then)], *made.call);
  return false;
}

// Returns the call that is taken as right. `members` are calls of one group and number on the ranks of the group. `kin`
// also contains those of the other groups along the same mesh axis, whose ranks run the same program. Most members
// decide, then most of the kin, then whether a rank repeats its earlier calls, then the lowest rank.
const Made& Judgement::Right(const Calls& members, const Calls& kin) const {
  auto votes = [](const Made& made, const Calls& calls) {
    return std::count_if(calls.begin(), calls.end(), [&](const Made& m) { return Alike(*m.call, *made.call); });
  };
  auto weight = [&](const Made& m) { return std::tuple(votes(m, members), votes(m, kin), IsUsual(m)); };
  return *std::max_element(members.begin(), members.end(),
                           [&](const Made& a, const Made& b) { return weight(a) < weight(b); });
}

Verdict Judgement::OtherCall() const {
  std::map<std::tuple<int, uint64_t, std::vector<int>>, Calls> meetings;
  std::map<std::pair<int, uint64_t>, Calls> kin;
  ForEachCall([&](const Made& made) {
    meetings[{made.call->group, made.call->sequence, GroupOf(made).ranks}].push_back(made);
    kin[{made.call->group, made.call->sequence}].push_back(made);
  });
  Made odd, right;  // the call that went wrong first
  for (const auto& [key, members] : meetings) {
    if (std::all_of(members.begin(), members.end(), [](const Made& m) { return m.call->done; })) continue;
    const Made& most = Right(members, kin[{std::get<0>(key), std::get<1>(key)}]);
    auto other =
        std::find_if(members.begin(), members.end(), [&](const Made& m) { return !Alike(*m.call, *most.call); });
    if (other == members.end() || (odd.call && odd.call->start <= other->call->start)) continue;
    odd = *other;
    right = most;
  }
  if (!odd.call) return {};
  return {odd.rank, fmt::format("{} failed first: {}: it called {}, but rank {} {}{}", Who(reports, odd.rank),
                                Name(right), ToString(*odd.call), right.rank, ToString(*right.call), After(odd.rank))};
}

// Returns the ranks of the group that have not come as far.
std::vector<int> Judgement::Absent(const Made& wait) const {
  std::vector<int> absent;
  for (int rank : GroupOf(wait).ranks) {
    uint64_t furthest = 0;
    for (const CallRecord& call : At(rank).calls)
      if (call.group == wait.call->group && !IsPointToPoint(call.op)) furthest = std::max(furthest, call.sequence);
    if (furthest < wait.call->sequence) absent.push_back(rank);
  }
  return absent;
}

// Each report is of the last mesh that its rank has watched. Ranks make meshes in the same order, so two ranks that
// both report on a group that has both report on the same mesh.
bool Judgement::IsMissing(const Made& wait, int rank, std::span<const uint64_t> made) const {
  const RecordedGroup& group = GroupOf(wait);
  auto at = size_t(wait.call->group);
  if (at >= made.size() || at >= At(rank).groups.size()) return false;
  const RecordedGroup& mine = At(rank).groups[at];
  bool is_member = std::find(mine.ranks.begin(), mine.ranks.end(), rank) != mine.ranks.end();
  return is_member && mine.name == group.name && mine.ranks == group.ranks && made[at] < wait.call->sequence;
}

std::string Judgement::MissedBy(int rank, std::span<const uint64_t> made) const {
  for (const Made& wait : Waiting())
    if (wait.rank != rank && IsMissing(wait, rank, made))
      return fmt::format("{}, {}, which it has not called and rank {} waits in{}", Name(wait), ToString(*wait.call),
                         wait.rank, After(rank));
  return "";
}

// Follows the chain of waiting ranks to one that waits for nobody.
Verdict Judgement::Missing() const {
  Calls waiting = Waiting();
  std::erase_if(waiting, [&](const Made& wait) { return Absent(wait).empty(); });
  if (waiting.empty()) return {};
  std::set<int> seen;
  for (Made wait = waiting[0]; seen.insert(wait.rank).second;) {
    int late = Absent(wait)[0];
    auto next = std::find_if(waiting.begin(), waiting.end(), [&](const Made& m) { return m.rank == late; });
    if (next == waiting.end())
      return {late, fmt::format("{} {}: {}, {}, which it has not called and rank {} waits in{}", Who(reports, late),
                                Lateness(late), Name(wait), ToString(*wait.call), wait.rank, After(late))};
    wait = *next;
  }
  return OtherOrder();
}

// The ranks wait for each other in a circle, so they call in different orders. All ranks run one program, so after the
// last call that all have made, most ranks are right about the next one. If that is undecided, a rank that repeats its
// earlier calls is right, or else the lowest.
Verdict Judgement::OtherOrder() const {
  auto same = [](const CallRecord& a, const CallRecord& b) { return a.group == b.group && a.sequence == b.sequence; };
  std::vector<Calls> made(reports.size());
  ForEachCall([&](const Made& m) { made[size_t(m.rank)].push_back(m); });
  auto find = [&](const Calls& calls, const CallRecord& call) {
    return std::find_if(calls.begin(), calls.end(), [&](const Made& m) { return same(*m.call, call); });
  };
  auto common = std::find_if(made[0].rbegin(), made[0].rend(), [&](const Made& m) {
    return std::all_of(made.begin(), made.end(), [&](const Calls& c) { return find(c, *m.call) != c.end(); });
  });
  if (common == made[0].rend()) return {};
  Calls next;
  for (const Calls& calls : made)
    if (auto it = find(calls, *common->call) + 1; it != calls.end()) next.push_back(*it);
  if (next.empty()) return {};
  auto votes = [&](const Made& m) {
    auto alike = std::count_if(next.begin(), next.end(), [&](const Made& n) { return same(*n.call, *m.call); });
    return std::pair(alike, IsUsual(m));
  };
  const Made& right =
      *std::max_element(next.begin(), next.end(), [&](const Made& a, const Made& b) { return votes(a) < votes(b); });
  auto odd = std::find_if(next.begin(), next.end(), [&](const Made& m) { return !same(*m.call, *right.call); });
  if (odd == next.end()) return {};
  return {odd->rank, fmt::format("{} failed first: {}, {}, which rank {} called next: it called {}, {}{}",
                                 Who(reports, odd->rank), Name(right), ToString(*right.call), right.rank, Name(*odd),
                                 ToString(*odd->call), After(odd->rank))};
}

// Before the mesh exists, and after the last call, the ranks meet in the bootstrap.
Verdict Judgement::LateExchange() const {
  auto waits = std::find_if(reports.begin(), reports.end(), [](const RankReport& r) { return r.exchange_failed; });
  if (waits == reports.end()) return {};
  auto late = waits;
  for (auto r = reports.begin(); r != reports.end(); ++r)
    if (r->state == State::kAnswered && r->exchanges < late->exchanges) late = r;
  if (late == waits) return {};
  auto rank = int(late - reports.begin());
  if (late->failed) return {rank, fmt::format("{} failed first: {}", Who(reports, rank), ReasonOf(*late))};
  return {rank, fmt::format("{} failed first: it has not come to exchange {} of all ranks, in which rank {} waits{}",
                            Who(reports, rank), late->exchanges + 1, waits - reports.begin(), After(rank))};
}

Verdict Judgement::FirstError() const {
  auto first = reports.end();
  for (auto r = reports.begin(); r != reports.end(); ++r)
    if (r->failed && (first == reports.end() || *r->failed < *first->failed)) first = r;
  if (first == reports.end()) return {};
  auto rank = int(first - reports.begin());
  return {rank, fmt::format("{} failed first: {}", Who(reports, rank), ReasonOf(*first))};
}

}  // namespace

std::string MissedBy(const std::vector<RankReport>& reports, int rank, std::span<const uint64_t> made) {
  return Judgement{reports}.MissedBy(rank, made);
}

std::string Who(const std::vector<RankReport>& reports, int rank) {
  const RankReport& r = reports[size_t(rank)];
  return fmt::format("rank {} (host {}, pid {})", rank, r.host, r.pid);
}

Verdict Judge(const std::vector<RankReport>& reports) {
  Judgement judgement{reports};
  if (Verdict v = judgement.Died(); v.rank >= 0) return v;
  if (Verdict v = judgement.IsGone(State::kStopped, "was suspended"); v.rank >= 0) return v;
  if (Verdict v = judgement.Cut(); v.rank >= 0) return v;
  if (Verdict v = judgement.IsGone(State::kSilent, "fell silent"); v.rank >= 0) return v;
  if (Verdict v = judgement.OtherCall(); v.rank >= 0) return v;
  if (Verdict v = judgement.Missing(); v.rank >= 0) return v;
  if (Verdict v = judgement.LateExchange(); v.rank >= 0) return v;
  return judgement.FirstError();
}

}  // namespace weft
