// Whole runs on a device double: what the training loop saves, and how it resumes, equals the CPU's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "double/group_double.h"
#include "double/kernels_double.h"
#include "share.h"
#include "support/checkpoint_testing.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/config/model_of.h"
#include "weft/train/loop/trainer.h"

namespace weft {
namespace {

using namespace testing_;
namespace fs = std::filesystem;

class DeviceRun : public CheckpointTest {
 protected:
  // Like Train, on doubles. Work on streams other than the main one starts up to `beside_us` microseconds late.
  absl::Status TrainOnDoubles(const Words& overrides, int beside_us) const {
    absl::StatusOr<Config> config = Load(overrides);
    if (!config.ok()) return config.status();
    absl::StatusOr<Dataset> data = Dataset::Load(*config);
    if (!data.ok()) return data.status();
    std::vector<absl::Status> statuses(size_t(config->mesh.ranks()));
    test::OnDoubles(int(statuses.size()), {}, [&](test::DoubleRank& rank) {
      RegisterCpuKernels(rank.context.kernels(DeviceKind::kCpu));
      RegisterCollectives(rank.context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      test::RegisterDoubleKernels(rank.context);
      rank.device.set_beside_us(beside_us);
      DeviceMesh mesh(rank.context, rank.groups, MeshOf(*config), rank.groups.kinds());
      statuses[size_t(rank.context.rank())] = Trainer(*config, *data, rank.context, mesh, DeviceKind::kCuda).Run();
    });
    for (const absl::Status& status : statuses) EXPECT_EQ(status, statuses[0]);
    return statuses[0];
  }
  void ExpectSameCheckpoints(const std::string& a, const std::string& b, const std::string& what) const {
    std::vector<int64_t> steps = StepsIn(folder_.Path(a));
    EXPECT_EQ(steps, StepsIn(folder_.Path(b))) << what;
    for (int64_t step : steps)
      EXPECT_EQ(TensorsOf(StepFolder(folder_.Path(a), step)), TensorsOf(StepFolder(folder_.Path(b), step)))
          << what << ", step " << step;
  }
};

// One copy in four of about fifty starts up to 5 ms late. Most of a step would be over by then if it did not wait. The
// cases have an evaluation between two steps, and one and several micro-steps.
TEST_F(DeviceRun, SavesWhatTheCpuSaves) {
  Words evals{"data.val=0.5", "train.eval_every=2", "train.eval_batches=1"};
  for (const Words& words : test::ShareOf(
           std::vector<Words>{Mesh(1, 1), Mesh(1, 1) + Words{"train.micro_batch=2"}, Mesh(1, 1) + evals,
                              Mesh(2, 2) + Words{"parallel.fsdp=full", "precision.compute=bf16", "train.micro_batch=1"},
                              Mesh(1, 1) + Words{"executor=eager"}})) {
    std::string what = fmt::format("{}", fmt::join(words, " "));
    Words every{"checkpoint.every=1"};
    ASSERT_EQ(Train(words + SaveTo("cpu") + every), absl::OkStatus());
    fs::remove(log_);
    ASSERT_EQ(TrainOnDoubles(words + SaveTo("double") + every, 5000), absl::OkStatus()) << what;
    ExpectSameCheckpoints("cpu", "double", what);
    int saves = 0;
    for (const nlohmann::json& event : Events()) {
      if (event["event"] != "save") continue;
      saves++;
      EXPECT_GT(event["bytes"], 10'000);
      EXPECT_GT(event["gb_per_s"], 0);
      EXPECT_GE(event["stall_seconds"], 0);
    }
    EXPECT_EQ(saves, 6) << what;
    for (const char* dir : {"cpu", "double"}) fs::remove_all(folder_.Path(dir));
  }
}

// A double resumes from a checkpoint of the CPU on the same mesh, and the CPU from one of a double.
TEST_F(DeviceRun, GoesOnFromWhatTheCpuSavedAndTheOtherWay) {
  Words words = Mesh(2, 2) + Words{"parallel.fsdp=full"}, half{"train.steps=3"};
  ASSERT_EQ(Train(words + SaveTo("whole")), absl::OkStatus());
  ASSERT_EQ(Train(words + half + SaveTo("cpu")), absl::OkStatus());
  ASSERT_EQ(TrainOnDoubles(words + half + SaveTo("double"), 500), absl::OkStatus());
  ASSERT_EQ(TrainOnDoubles(words + From("cpu/step-000003") + SaveTo("from_cpu"), 500), absl::OkStatus());
  ASSERT_EQ(Train(words + From("double/step-000003") + SaveTo("from_double")), absl::OkStatus());
  for (const char* dir : {"from_cpu", "from_double"}) ExpectSameCheckpoints("whole", dir, dir);
}

}  // namespace
}  // namespace weft
