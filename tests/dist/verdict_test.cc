// Who failed first: verdicts from reports that are made up, of ranks on a mesh of 2 x 2.
#include "weft/dist/failure/verdict.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <regex>

namespace weft {
namespace {

using State = RankReport::State;
using Op = CollectiveOp;
enum Axis { kDp, kTp, kWorld };
const RankReport::Time kStart = std::chrono::steady_clock::now();

// The reports of four ranks, and calls added to them as time goes by.
struct Job {
  std::vector<RankReport> reports;
  int clock = 0;

  Job() {
    for (int r = 0; r < 4; r++) {
      RankReport& report = reports.emplace_back(RankReport{.state = State::kAnswered, .host = "h", .pid = 100 + r});
      report.groups = {{"dp", {r % 2, r % 2 + 2}}, {"tp", {r / 2 * 2, r / 2 * 2 + 1}}, {"world", {0, 1, 2, 3}}};
    }
  }
  CallRecord& Call(int rank, Axis axis, uint64_t sequence, bool done) {
    CallRecord& call = reports[size_t(rank)].calls.emplace_back();
    call.group = axis;
    call.sequence = sequence;
    call.op = Op::kAllReduce;
    call.count = axis == kDp ? 1000 : 10;
    call.start = kStart + std::chrono::milliseconds(clock++);
    call.done = done;
    return call;
  }
  void AllDone(Axis axis, uint64_t sequence) {
    for (int r = 0; r < 4; r++) Call(r, axis, sequence, true);
  }
  void Expect(int rank, const std::string& text) const {
    for (const RankReport& report : reports) {  // as others get it
      RankReport read;
      ASSERT_TRUE(Decode(Encode(report), &read));
      EXPECT_EQ(read.calls.size(), report.calls.size());
      EXPECT_EQ(read.groups.size(), report.groups.size());
      EXPECT_EQ(read.exchanges, report.exchanges);
      EXPECT_EQ(read.exchange_failed, report.exchange_failed);
      EXPECT_EQ(read.activity, report.activity);
    }
    Verdict verdict = Judge(reports);
    EXPECT_EQ(verdict.rank, rank) << verdict.text;
    EXPECT_NE(verdict.text.find(text), std::string::npos) << "expected \"" << text << "\" in: " << verdict.text;
  }
};

TEST(Verdict, ADeadRankIsFirst) {
  Job job;
  job.AllDone(kDp, 1);
  job.Call(0, kDp, 2, false);
  job.Call(1, kDp, 2, true);
  job.Call(3, kDp, 2, true);
  job.Call(1, kTp, 1, false);
  job.reports[2] = {.state = State::kDied, .host = "h", .pid = 102};
  job.Expect(
      2, "rank 2 (host h, pid 102) died first: all_reduce #2 on dp, all_reduce f32 x 1000 sum, in which rank 0 waited");
}

// As when mpirun loses a host and ends the ranks of another one.
TEST(Verdict, ADeathBesideASilentRankNamesBoth) {
  Job job;
  job.AllDone(kWorld, 1);
  for (int r : {1, 3}) job.Call(r, kWorld, 2, false);
  job.reports[0] = {.state = State::kDied, .host = "h", .pid = 100};
  job.reports[2] = {.state = State::kSilent, .host = "h", .pid = 102};
  job.Expect(0,
             "rank 0 (host h, pid 100) died first: all_reduce #2 on world, all_reduce f32 x 10 sum, in which ranks 1, "
             "3 waited for it; rank 2 (host h, pid 102) does not answer: if its host is lost, that was first");
}

TEST(Verdict, ADeathBetweenCollectivesNamesTheLast) {
  Job job;
  job.AllDone(kDp, 7);
  job.reports[1] = {.state = State::kDied, .host = "h", .pid = 101};
  job.Expect(1, "died first: after all_reduce #7 on dp");
}

TEST(Verdict, ASuspendedRankIsFirst) {
  Job job;
  for (int r : {0, 1, 2}) job.Call(r, kWorld, 3, false);
  job.reports[3] = {.state = State::kStopped, .host = "h", .pid = 103};
  job.Expect(3, "was suspended first: all_reduce #3 on world, all_reduce f32 x 10 sum, in which ranks 0-2 waited");
}

// Whoever asks: a rank at an end of the cut, to which the other end is silent, or a third one, whom both answer.
TEST(Verdict, ACutBetweenTwoRanksNamesBothEnds) {
  for (int asks : {0, 1, 2, 3}) {
    Job job;
    job.AllDone(kWorld, 1);
    for (int r : {1, 2}) job.Call(r, kWorld, 2, false);
    for (int r : {0, 3}) job.Call(r, kWorld, 2, true);
    for (int r : {0, 3}) job.Call(r, kDp, 1, false);  // they wait for the ends, in the next call
    job.reports[1].unreached = {2};
    job.reports[2].unreached = {1};
    job.reports[1].failed = kStart;
    job.reports[1].error = "timed out";
    if (asks == 1) job.reports[2] = {.state = State::kSilent, .host = "h", .pid = 102};
    if (asks == 2) job.reports[1] = {.state = State::kSilent, .host = "h", .pid = 101};
    job.Expect(1,
               "rank 1 (host h, pid 101) and rank 2 (host h, pid 102) lost their connection first: neither reaches "
               "the other, and others reach both: all_reduce #2 on world, all_reduce f32 x 10 sum, in which rank");
  }
}

TEST(Verdict, ARankThatNobodyReachesFellSilent) {
  Job job;
  job.AllDone(kWorld, 1);
  for (int r : {0, 1, 2}) {
    job.Call(r, kWorld, 2, false);
    job.reports[size_t(r)].unreached = {3};
  }
  job.reports[3] = {.state = State::kSilent, .host = "h", .pid = 103};
  job.Expect(3, "rank 3 (host h, pid 103) fell silent first: all_reduce #2 on world");
  // One that answers, and is only slow to answer one of the others, is no cut.
  job.reports[3].state = State::kAnswered;
  job.reports[3].calls = job.reports[2].calls;
  job.reports[3].groups = job.reports[2].groups;
  EXPECT_EQ(Judge(job.reports).text.find("lost their connection"), std::string::npos);
}

// Four ranks with calls, states, errors and cuts at random.
Job RandomJob(std::mt19937& random) {
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  Job job;
  for (int calls = below(8); calls > 0; calls--)
    job.Call(below(4), Axis(below(3)), uint64_t(1 + below(3)), below(2) == 0).count = 1 + below(2);
  for (RankReport& report : job.reports) {
    if (below(6) == 0) report = {.state = State(below(5)), .host = "h", .pid = 1};
    report.exchanges = below(3);
    report.exchange_failed = below(4) == 0;
    if (below(3) == 0) report.failed = kStart + std::chrono::milliseconds(below(5));
    if (below(2) == 0) report.error = "the reason";
    for (int r = 0; r < 4; r++)
      if (below(5) == 0) report.unreached.push_back(r);
  }
  return job;
}
bool HasFailed(const RankReport& report) {
  return report.failed || (report.state != State::kAnswered && report.state != State::kLeft);
}

// Whatever ranks report, a line says something of one of them, and why. No line comes only where no rank has failed. A
// rank notes its own failure before it asks the others, so a job that fails has a line.
TEST(Verdict, AFailureAlwaysHasAReason) {
  const std::regex line(
      "rank [0-3] \\(host h, pid [0-9]+\\) ((died|was suspended|fell silent|failed|left) first|and rank [0-3] "
      "\\(host h, pid [0-9]+\\) lost their connection first): .{5,}");
  std::mt19937 random(15);
  int lines = 0, without = 0;
  for (int i = 0; i < 20'000; i++) {
    Job job = RandomJob(random);
    Verdict verdict = Judge(job.reports);
    (verdict.rank < 0 ? without : lines)++;
    if (verdict.rank < 0) {
      ASSERT_EQ(verdict.text, "");
      ASSERT_TRUE(std::none_of(job.reports.begin(), job.reports.end(), HasFailed)) << "job " << i;
      job.reports[size_t(i % 4)].failed = kStart;
      verdict = Judge(job.reports);
    }
    ASSERT_GE(verdict.rank, 0) << "job " << i;
    ASSERT_TRUE(std::regex_match(verdict.text, line)) << verdict.text;
  }
  EXPECT_GT(lines, 10'000);
  EXPECT_GT(without, 100);
  fmt::print("shown: verdicts on 20000 random jobs: {} have a line; {} have none, and no rank failed\n", lines,
             without);
}

TEST(Verdict, WhoDoesNotComeToAnExchangeOfTheBootstrapIsNamed) {
  Job job;
  for (RankReport& report : job.reports) report.exchanges = 7;
  job.reports[1].exchanges = 6;
  job.reports[3].failed = kStart;
  job.reports[3].exchange_failed = true;
  job.Expect(1, "rank 1 (host h, pid 101) failed first: it has not come to exchange 7 of all ranks, in which rank 3");
  job.AllDone(kDp, 4);
  job.Expect(1, "in which rank 3 waits; the last call it finished: all_reduce #4 on dp");
  job.reports[1].failed = kStart + std::chrono::seconds(1);
  job.reports[1].error = "its disk is full";
  job.Expect(1, "rank 1 (host h, pid 101) failed first: its disk is full");
}

TEST(Verdict, ALateRankThatIsBusyIsSaidToBe) {
  Job job;
  job.AllDone(kWorld, 2);
  for (int r : {0, 1, 3}) job.Call(r, kWorld, 3, false);
  job.reports[2].activity = "saving c/step-000100 (1.0 MiB of 2.0 MiB written, the last progress 9.0 s ago)";
  job.Expect(2,
             "rank 2 (host h, pid 102) is late, it is saving c/step-000100 (1.0 MiB of 2.0 MiB written, the last "
             "progress 9.0 s ago): all_reduce #3 on world, all_reduce f32 x 10 sum, which it has not called and rank "
             "0 waits in; the last call it finished: all_reduce #2 on world");
}

// Two ranks have no majority: a step makes the calls of the step before.
TEST(Verdict, OfTwoTheOneThatDoesNotRepeatItselfIsOdd) {
  for (int odd : {0, 1}) {
    Job job;
    job.reports.resize(2);
    for (RankReport& report : job.reports) report.groups = {{"dp", {0, 1}}, {"tp", {0}}, {"world", {0, 1}}};
    for (uint64_t i = 0; i < 10; i++)
      for (int r : {0, 1}) job.Call(r, i % 2 ? kWorld : kDp, i / 2 + 1, true).count = int64_t(10 + i % 2);
    for (int r : {0, 1}) job.Call(r, kDp, 6, false).count = r == odd ? 9 : 10;
    job.Expect(odd, "failed first: all_reduce #6 on dp: it called all_reduce f32 x 9 sum, but rank");
  }
}

// In the first step a rank repeats nothing, even if the sizes of its calls are those of other places of the model.
TEST(Verdict, SizesOfOtherPlacesAreNoRepetition) {
  Job job;
  job.reports.resize(2);
  for (RankReport& report : job.reports) report.groups = {{"dp", {0, 1}}};
  auto call = [&](int rank, uint64_t sequence, int64_t count, const char* site, bool done) {
    CallRecord& made = job.Call(rank, kDp, sequence, done);
    made.count = count;
    made.site = SiteText(site);
  };
  const char* sites[] = {"a", "b", "c", "d", "e", "f", "g"};
  for (uint64_t i = 0; i < 7; i++)
    for (int r : {0, 1}) call(r, i + 1, int64_t(1 + i % 4), sites[i], true);
  call(0, 8, 5, "h", false);
  call(1, 8, 4, "i", false);  // it has skipped h
  job.Expect(1, "failed first: all_reduce #8 on dp: it called all_reduce f32 x 4 sum at i, but rank 0");
}

// Ranks 0 and 1 are done and wait in the last exchange when a call of the others fails.
TEST(Verdict, ExchangesTellNothingOfAFailedCall) {
  Job job;
  job.AllDone(kDp, 4);
  for (int r : {0, 1}) job.reports[size_t(r)].exchanges = 9;
  for (int r : {2, 3}) job.reports[size_t(r)].exchanges = 8;
  job.reports[3].failed = kStart;
  job.reports[3].error = "connection reset";
  job.Expect(3, "rank 3 (host h, pid 103) failed first: connection reset");
}

// Rank 3, which has another partner on dp, waits for it too, and may have come there sooner than rank 0 to its call.
TEST(Verdict, TheFirstCallThatARankLeftOpenIsNamed) {
  Job job;
  job.AllDone(kDp, 1);
  job.Call(1, kDp, 2, true);
  job.Call(3, kDp, 2, true);
  job.Call(3, kTp, 1, false);
  job.Call(0, kDp, 2, false);
  job.reports[2] = {.state = State::kStopped, .host = "h", .pid = 102};
  job.Expect(2, "was suspended first: all_reduce #2 on dp, all_reduce f32 x 1000 sum, in which rank 0 waited for it");
}

TEST(Verdict, MostRanksAreRightAboutACall) {
  for (int odd = 0; odd < 4; odd++) {
    Job job;
    job.AllDone(kWorld, 1);
    for (int r = 0; r < 4; r++) job.Call(r, kWorld, 2, false).dtype = r == odd ? DType::kF64 : DType::kF32;
    job.Expect(odd, "failed first: all_reduce #2 on world: it called all_reduce f64 x 10 sum, but rank");
  }
}

// A group of two cannot tell; the other groups of its axis can.
TEST(Verdict, TheKinOfAGroupDecideBetweenTwo) {
  for (int odd = 0; odd < 4; odd++) {
    Job job;
    job.AllDone(kDp, 1);
    for (int r = 0; r < 4; r++) {
      CallRecord& call = job.Call(r, kDp, 2, r % 2 != odd % 2);
      if (r == odd) call.count = 999;
    }
    job.Expect(odd, "failed first: all_reduce #2 on dp: it called all_reduce f32 x 999 sum, but rank");
  }
}

TEST(Verdict, CountsOfTheirOwnAreNoDifference) {
  Job job;
  for (int r = 0; r < 4; r++) {
    CallRecord& call = job.Call(r, kWorld, 1, false);
    call.op = Op::kAllGatherV;
    call.count = r;
  }
  EXPECT_EQ(Judge(job.reports).rank, -1);
}

TEST(Verdict, ARankThatAllWaitForIsLate) {
  Job job;
  job.AllDone(kDp, 1);
  for (int r : {0, 1, 3}) job.Call(r, kWorld, 1, false);
  job.Expect(
      2,
      "failed first: all_reduce #1 on world, all_reduce f32 x 10 sum, which it has not called and rank 0 waits in; "
      "the last call it finished: all_reduce #1 on dp");
}

// Rank 0 waits for rank 2, which left out a call and waits for all.
TEST(Verdict, ASkippedCallIsFoundInACircle) {
  Job job;
  job.AllDone(kWorld, 1);
  job.Call(0, kDp, 1, false);
  job.Call(1, kDp, 1, true);
  job.Call(3, kDp, 1, true);
  job.Call(1, kTp, 1, false);
  for (int r : {2, 3}) job.Call(r, kTp, 1, true);
  for (int r : {2, 3}) job.Call(r, kWorld, 2, false);
  job.Expect(2,
             "failed first: all_reduce #1 on dp, all_reduce f32 x 1000 sum, which rank 0 called next: it called "
             "all_reduce #1 on tp");
}

TEST(Verdict, WhereNothingDiffersTheFirstErrorDecides) {
  Job job;
  for (int r = 0; r < 4; r++) {
    job.Call(r, kWorld, 1, false);
    job.reports[size_t(r)].failed = kStart + std::chrono::milliseconds(r == 1 ? 5 : 10);
    job.reports[size_t(r)].error = "no route";
  }
  job.Expect(1, "rank 1 (host h, pid 101) failed first: no route");
}

TEST(RankReport, RefusesWhatIsCutOff) {
  Job job;
  job.AllDone(kDp, 1);
  std::string bytes = Encode(job.reports[0]);
  for (size_t n = 0; n < bytes.size(); n++) {
    RankReport read;
    EXPECT_FALSE(Decode(bytes.substr(0, n), &read)) << n;
  }
}

// A rank that will make no more calls is missed only if it certainly has not made the one that another waits in.
TEST(MissedBy, NamesTheCallThatAnotherRankWaitsIn) {
  Job job;
  job.AllDone(kDp, 1);
  const uint64_t one[] = {1, 0, 0}, two[] = {2, 0, 0};
  EXPECT_EQ(MissedBy(job.reports, 3, one), "");
  job.Call(1, kDp, 2, false);
  EXPECT_EQ(MissedBy(job.reports, 3, one),
            "all_reduce #2 on dp, all_reduce f32 x 1000 sum, which it has not called and rank 1 waits in; the last "
            "call it finished: all_reduce #1 on dp");
  EXPECT_EQ(MissedBy(job.reports, 3, two), "") << "it has made it";
  EXPECT_EQ(MissedBy(job.reports, 2, one), "") << "rank 1 shares no such group with it";
  EXPECT_EQ(MissedBy(job.reports, 1, one), "") << "a rank does not wait for itself";
  job.reports[3].groups[kDp].name = "of another mesh";
  EXPECT_EQ(MissedBy(job.reports, 3, one), "");
}

}  // namespace
}  // namespace weft
