// The loop as a whole, in process: what it writes, and when it stops.
#include "parallel/train/trainer.h"

#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "dist/collectives.h"
#include "dist/local_group.h"
#include "kernels/cpu/register.h"
#include "parallel/temp_folder.h"
#include "parallel/train/setup.h"

namespace weft {
namespace {

using testing_::TempFolder;
using Words = std::vector<std::string>;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

std::vector<nlohmann::json> Events(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> events;
  for (std::string line; std::getline(file, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

// A model of a few thousand parameters on the folder's text, in the file x.yaml.
class TrainerTest : public testing::Test {
 protected:
  absl::StatusOr<Config> Load(const Words& overrides) const {
    absl::StatusOr<Config> config = LoadConfig(path_, overrides);
    if (!config.ok()) return config.status();
    if (absl::Status s = Resolve(*config, 1); !s.ok()) return s;
    if (absl::Status s = ResolveVocab(*config, 256); !s.ok()) return s;
    return config;
  }
  absl::Status Train(const Words& overrides) const {
    absl::StatusOr<Config> config = Load(overrides);
    if (!config.ok()) return config.status();
    absl::StatusOr<Dataset> data = Dataset::Load(*config);
    if (!data.ok()) return data.status();
    absl::Status status;
    RunRanks(1, [&](Context& context, GroupFactory& groups) {
      RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
      RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      DeviceMesh mesh(context, groups, MeshOf(*config));
      status = Trainer(*config, *data, context, mesh).Run();
    });
    return status;
  }
  std::string Fails(const Words& overrides) const {
    absl::Status status = Train(overrides);
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    return std::string(status.message());
  }

  TempFolder folder_;
  std::string log_ = folder_.Path("x.jsonl");
  std::string path_ = folder_.Write("x.yaml",
                                    "model: {family: gpt2, layers: 1, heads: 2, dim: 8, context: 8}\n"
                                    "data: {train: " +
                                        folder_.Write("a.txt", std::string(500, 'a') + "bcdefghij") +
                                        ", val: 0.02}\n"
                                        "train: {steps: 3, global_batch: 4}\n"
                                        "log: {jsonl: " +
                                        log_ + "}\n");
};

TEST_F(TrainerTest, SavesTheMergedConfigAndLeavesTheUsersAlone) {
  std::string before = Read(path_);
  ASSERT_TRUE(Train({"train.seed=7"}).ok());
  EXPECT_EQ(Read(path_), before);
  absl::StatusOr<Config> saved = LoadConfig(SavedConfigPath(log_), {"log.jsonl=other.jsonl"});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->train.seed, 7);
  EXPECT_EQ(Events(log_).back()["event"], "end");
}

TEST_F(TrainerTest, ALossThatIsNotFiniteEndsTheRun) {
  std::string error = Fails({"optimizer.lr=1e38", "schedule.min_lr=0", "data.val=0"});
  EXPECT_NE(error.find("the loss of step 2 is nan"), error.npos) << error;
  EXPECT_NE(error.find("lower optimizer.lr"), error.npos) << error;
  std::vector<nlohmann::json> events = Events(log_);
  EXPECT_EQ(events.back()["event"], "step");
  EXPECT_TRUE(events.back()["loss"].is_null());
}

TEST_F(TrainerTest, AValidationLossThatIsNotFiniteEndsTheRun) {
  for (const char* executor : {"compiled", "eager"}) {
    std::string error = Fails({"optimizer.lr=1e38", "train.steps=1", std::string("executor=") + executor});
    EXPECT_NE(error.find("the validation loss after step 1 is nan"), error.npos) << error;
    EXPECT_EQ(Events(log_).back()["event"], "step");
  }
}

}  // namespace
}  // namespace weft
