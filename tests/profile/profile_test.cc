// profile.steps: the trace obeys the laws of its format and of the plans, and the run is otherwise unchanged.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <sstream>

#include "profile/profile_testing.h"
#include "train/temp_folder.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/train/profile/exposure.h"
#include "weft/train/profile/module_track.h"
#include "weft/train/profile/profile_totals.h"

namespace weft {
namespace {

using namespace testing_;
using Words = std::vector<std::string>;

class Profile : public testing::Test {
 protected:
  Config Configured(Words words) const {
    words.push_back("log.jsonl=" + log_);
    absl::StatusOr<Config> config = ProfiledConfig(words);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? *config : Config();
  }
  absl::Status Train(const Config& config, StopGate* stop = nullptr) const {
    std::vector<absl::Status> statuses(size_t(config.mesh.ranks()));
    RunRanks(int(statuses.size()), [&](Context& context, GroupFactory& groups) {
      statuses[size_t(context.rank())] = TrainRank(config, context, groups, stop);
    });
    for (const absl::Status& status : statuses) EXPECT_EQ(status.ok(), statuses[0].ok()) << status;
    return statuses[0];
  }
  std::vector<double> LossesOfRun(const Config& config) const {
    absl::Status status = Train(config);
    EXPECT_TRUE(status.ok()) << status;
    return LossesOf(log_);
  }
  nlohmann::json ProfileEvent() const {
    for (const nlohmann::json& event : EventsOf(log_))
      if (event["event"] == "profile") return event;
    ADD_FAILURE() << "the log has no event profile";
    return nlohmann::json();
  }

  TempFolder folder_;
  std::string log_ = folder_.Path("x.jsonl"), path_ = folder_.Path("p.json");
};

// Both a profile and the thread of a save exchange data among all ranks. The first save is slow, so it is still under
// way where the first profile begins, and where the second one ends.
TEST_F(Profile, WaitsForSavesThatAreUnderWay) {
  std::vector<double> want = LossesOfRun(Configured({"mesh.dp=2"}));
  for (const auto& [first, every] : {std::pair{3, 2}, {2, 3}}) {
    ::setenv("WEFT_FAULT", fmt::format("create:slow:{}", every).c_str(), 1);  // another text is counted from 1
    Config config = Configured({"mesh.dp=2", fmt::format("profile.steps=[{},4]", first), "profile.path=" + path_,
                                fmt::format("checkpoint.every={}", every), "checkpoint.dir=" + folder_.Path("c")});
    EXPECT_EQ(LossesOfRun(config), want);
    ::unsetenv("WEFT_FAULT");
    CheckTrace(config, first, 4);
    EXPECT_EQ(ProfileEvent()["step"], 4);
    std::filesystem::remove_all(folder_.Path("c"));
  }
}

// On every mesh, with one and with several micro-steps, the trace contains what ran, and the losses have the same bits.
TEST_F(Profile, IsWhatRanAndChangesNothing) {
  const std::vector<Words> runs = {{},
                                   {"train.micro_batch=1"},
                                   {"mesh.dp=2", "mesh.tp=2"},
                                   {"mesh.dp=2", "mesh.tp=2", "train.micro_batch=1", "parallel.fsdp=full"},
                                   {"mesh.tp=2", "parallel.sequence_parallel=true"},
                                   {"mesh.replicate=2", "mesh.dp=2", "parallel.fsdp=gradients"}};
  for (const Words& run : runs) {
    SCOPED_TRACE(run.empty() ? "one rank" : run[0] + " " + run.back());
    std::vector<double> want = LossesOfRun(Configured(run));
    Words profiled = run;
    profiled.insert(profiled.end(), {"profile.steps=[2,3]", "profile.path=" + path_});
    Config config = Configured(profiled);
    EXPECT_EQ(LossesOfRun(config), want);
    ASSERT_EQ(want.size(), 5u);
    CheckTrace(config, 2, 3);
    nlohmann::json event = ProfileEvent();
    EXPECT_EQ(event["path"], path_);
    EXPECT_EQ(event["first_step"], 2);
    EXPECT_EQ(event["step"], 3);
    EXPECT_GT(double(event["step_ms"]), 0);
    EXPECT_GT(double(event["kernels"]), 0);
    EXPECT_EQ(double(event["collectives"]) > 0, config.mesh.ranks() > 1);
    EXPECT_LE(double(event["waiting"]), double(event["collectives"]));
    EXPECT_NEAR(double(event["kernels"]) + double(event["collectives"]) + double(event["neither"]), 1, 1e-9);
  }
}

// Collectives that run at the same time as kernels: each axis has its own track, and only the exposed part of their
// time adds to the step's.
TEST_F(Profile, OfOverlappedStepsAddsUp) {
  for (const char* mode : {"always", "fill", "halves", "chunks"}) {
    std::vector<std::string> words = {"mesh.dp=2", "mesh.tp=2", "parallel.fsdp=full",
                                      fmt::format("parallel.overlap={}", mode)};
    if (std::string_view(mode) == "chunks") words.emplace_back("parallel.chunks=2");
    std::vector<double> want = LossesOfRun(Configured(words));
    words.insert(words.end(), {"profile.steps=[2,4]", "profile.path=" + path_});
    EXPECT_EQ(LossesOfRun(Configured(words)), want) << mode;
    for (const auto& [pid, tracks] : ReadTrace(path_)) {
      EXPECT_EQ(tracks.size(), 4u) << "modules, kernels, collectives dp, collectives tp";
      for (const auto& [name, track] : tracks) CheckNesting(track);
      for (const TraceSlice& slice : CollectivesOf(tracks)) {
        EXPECT_GE(double(slice.args.at("exposed us")), 0) << slice.name;
        EXPECT_LE(Nanoseconds(slice.args.at("exposed us")), slice.end - slice.begin) << slice.name;
      }
    }
    nlohmann::json event = ProfileEvent();
    EXPECT_NEAR(double(event["kernels"]) + double(event["collectives"]) + double(event["neither"]), 1, 1e-9) << mode;
    for (const char* share : {"kernels", "collectives", "hidden", "neither"})
      EXPECT_GE(double(event[share]), 0) << share;
    EXPECT_LE(double(event["waiting"]), double(event["collectives"]));
  }
}

// The exposed time of a collective, counted tick by tick: no kernel and no collective that began before runs then.
TEST(Exposure, IsTheTimeThatNothingHides) {
  Step kernel{std::make_shared<Node>(), {}, {}}, collective = kernel;
  kernel.node->op = Op::kAdd;
  collective.node = std::make_shared<Node>();
  collective.node->op = Op::kAllReduce;
  std::mt19937 draw(1);
  for (int round = 0; round < 200; round++) {
    std::vector<ProfiledBatch> batches;
    std::vector<int64_t> arrivals;
    int64_t now = 0;
    for (int i = 0; i < 20; i++) {
      bool moves = draw() % 2;
      int64_t begin = moves ? int64_t(draw() % 100) : now + int64_t(draw() % 6), end = begin + int64_t(draw() % 30);
      if (!moves) now = end;
      batches.push_back({.span = {begin, end}, .steps = {moves ? &collective : &kernel, 1}});
      arrivals.push_back(begin + int64_t(draw() % 40) - 5);
    }
    std::vector<Exposed> exposed = ExposedOf(batches, arrivals);
    auto runs = [&](size_t i, int64_t t) { return batches[i].span.begin <= t && t < batches[i].span.end; };
    auto before = [&](size_t a, size_t b) {
      return std::pair(batches[a].span.begin, a) < std::pair(batches[b].span.begin, b);
    };
    for (size_t i = 0; i < batches.size(); i++) {
      Exposed want;
      for (int64_t t = batches[i].span.begin; batches[i].is_collective() && t < batches[i].span.end; t++) {
        bool hidden = false;
        for (size_t j = 0; j < batches.size(); j++)
          hidden |= j != i && runs(j, t) && (!batches[j].is_collective() || before(j, i));
        want.all += !hidden;
        want.waiting += !hidden && t < arrivals[i];
      }
      EXPECT_EQ(exposed[i].all, want.all);
      EXPECT_EQ(exposed[i].waiting, want.waiting);
    }
  }
}

// The first and the last step, a single step, and steps next to evaluations.
TEST_F(Profile, TakesAnyStepsOfTheRun) {
  for (auto [first, last] : {std::pair{1, 1}, {1, 5}, {5, 5}, {3, 3}}) {
    Config config = Configured({fmt::format("profile.steps=[{}, {}]", first, last), "profile.path=" + path_});
    ASSERT_TRUE(Train(config).ok());
    CheckTrace(config, first, last);
  }
}

TEST_F(Profile, OfARunThatStopsHasTheStepsThatRan) {
  StopGate gate;
  gate.Release(3, "the test");
  Config config = Configured({"profile.steps=[2,5]", "profile.path=" + path_});
  ASSERT_TRUE(Train(config, &gate).ok());
  EXPECT_EQ(LossesOf(log_).size(), 3u);
  CheckTrace(config, 2, 3);
  EXPECT_EQ(ProfileEvent()["step"], 3);
}

TEST_F(Profile, OfStepsBeforeAResumeIsRefused) {
  std::string saved = "checkpoint.dir=" + folder_.Path("saved");
  ASSERT_TRUE(Train(Configured({saved, "train.steps=3"})).ok());
  Config config = Configured({saved, "checkpoint.resume=auto", "profile.steps=[3,4]", "profile.path=" + path_});
  absl::Status status = Train(config);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(status.message(),
            "command line: profile.steps: expected steps after 3, where the run resumes, got [3, 4]; give later steps "
            "or remove it");
  config.profile.steps = {4, 4};
  ASSERT_TRUE(Train(config).ok());
  CheckTrace(config, 4, 4);
}

TEST_F(Profile, OfAnotherRunStays) {
  for (int run = 0; run < 3; run++)
    ASSERT_TRUE(Train(Configured({fmt::format("profile.steps=[{0}, {0}]", run + 1), "profile.path=" + path_})).ok());
  auto step_of = [](const std::string& path) { return ReadTrace(path).at(1).at("modules").at(0).name; };
  EXPECT_EQ(step_of(path_ + ".1"), "step 1");
  EXPECT_EQ(step_of(path_ + ".2"), "step 2");
  EXPECT_EQ(step_of(path_), "step 3");
}

// As with a log that cannot be written, the run continues to its end and then reports that the profile is missing.
TEST_F(Profile, ThatCannotBeWrittenCostsNoStep) {
  std::string below_a_file = folder_.Write("file", "x") + "/p.json";
  for (const Words& mesh : {Words{}, Words{"mesh.dp=2"}}) {
    Words words = mesh;
    words.insert(words.end(), {"profile.steps=[2,2]", "profile.path=" + below_a_file});
    absl::Status status = Train(Configured(words));
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_NE(std::string(status.message()).find(below_a_file), std::string::npos) << status;
    EXPECT_EQ(LossesOf(log_).size(), 5u);
  }
}

TEST(ModuleTrack, KeepsNumbersWithWhatTheyCount) {
  auto text = [](std::string_view scope) { return fmt::format("{}", fmt::join(ModulesOf(scope), "|")); };
  EXPECT_EQ(text("blocks.3.mlp.down"), "blocks.3|mlp|down");
  EXPECT_EQ(text("blocks.11"), "blocks.11");
  EXPECT_EQ(text("a.1.2.b"), "a.1.2|b");
  EXPECT_EQ(text("embed"), "embed");
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(FoldedScope("blocks.11.mlp"), "blocks.*.mlp");
  EXPECT_EQ(FoldedScope("a1.b2"), "a1.b2");
}

TEST(ProfileTable, HasLinesOf80Columns) {
  ProfileTotals totals;
  totals.steps = 6;
  totals.step_time = 6e9;
  for (int i = 0; i < 30; i++)
    totals.kernels[{"linear_cross_entropy_grad", std::string(size_t(i), 'm'), "backward"}] = {
        .calls = 600, .time = 1e8 * (i + 1), .bytes = 1e12, .flops = 1e15};
  totals.collectives[{"reduce_scatter", "replicate"}] = {.calls = 9999, .time = 1e9, .waiting = 5e8, .bytes = 1e15};
  std::istringstream lines(ProfileTable(totals));
  int count = 0;
  for (std::string line; std::getline(lines, line); count++) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_EQ(count, 1 + 10 + 1 + 1);
}

}  // namespace
}  // namespace weft
