// The trace of a run under mpirun: ranks are processes, Gloo moves the bytes, and rank 0 writes the times of all ranks.
#include <gtest/gtest.h>

#include "dist/mpi_run.h"
#include "profile/profile_testing.h"
#include "train/temp_folder.h"
#include "weft/dist/group/standard/group_maker.h"

namespace weft {
namespace {

using namespace testing_;

// Returns the losses on rank 0, which is the only rank with a log.
std::vector<double> Train(const Config& config) {
  Bootstrap& bootstrap = test::TheBootstrap();
  Context context(bootstrap.rank(), bootstrap.world_size());
  auto groups = MakeGroupFactory(bootstrap);
  absl::Status status = TrainRank(config, context, *groups);
  EXPECT_TRUE(status.ok()) << status;
  return bootstrap.rank() == 0 ? LossesOf(config.log.jsonl) : std::vector<double>();
}

TEST(MpiProfile, IsWhatRanAndChangesNothing) {
  ASSERT_EQ(test::TheBootstrap().world_size(), 4);
  TempFolder folder;
  for (const char* word : {"parallel.fsdp=none", "parallel.fsdp=full"}) {
    std::vector<std::string> words{"mesh.dp=2", "mesh.tp=2", "train.micro_batch=1", word,
                                   "log.jsonl=" + folder.Path("x.jsonl")};
    absl::StatusOr<Config> plain = ProfiledConfig(words);
    words.insert(words.end(), {"profile.steps=[2,4]", "profile.path=" + folder.Path("p.json")});
    absl::StatusOr<Config> profiled = ProfiledConfig(words);
    ASSERT_TRUE(plain.ok() && profiled.ok()) << plain.status() << profiled.status();
    std::vector<double> want = Train(*plain);
    EXPECT_EQ(Train(*profiled), want);
    if (test::TheBootstrap().rank() == 0) CheckTrace(*profiled, 2, 4);
  }
}

}  // namespace
}  // namespace weft
