// Ranks issue the collectives of a text's next token, and of evaluation, in the same order and in the same groups.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "support/streamed.h"
#include "support/training.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/compile/pipeline.h"
#include "weft/train/infer/evaluate_model.h"
#include "weft/train/infer/forward.h"
#include "weft/train/infer/next_token.h"

namespace weft {
namespace {

using namespace testing_;

// With 5 or 6 heads and 2 rows some of four ranks have none, and so smaller workspaces.
TEST(ProgramGroups, AreTheSameOnAllRanks) {
  std::vector<Layout> layouts;
  for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull}) layouts.push_back({.dp = 4, .fsdp = fsdp});
  for (bool sp : {false, true}) layouts.push_back({.tp = 4, .sequence_parallel = sp});
  layouts.push_back({.dp = 2, .tp = 2, .fsdp = Fsdp::kFull});
  int groups = 0, other_orders = 0;
  for (const char* family : kFamilies)
    for (const Layout& layout : layouts) {
      std::set<uint64_t> of_layout;
      for (OverlapMode overlap : {OverlapMode::kNever, OverlapMode::kAlways, OverlapMode::kFill, OverlapMode::kHalves,
                                  OverlapMode::kChunks}) {
        Job job{.model = Tiny(family), .global_batch = 2};
        StepOptions options = OptionsOf(job, layout);
        options.model.precision.stored_as_used = true;  // as LoadedModel has it
        std::set<uint64_t> hashes;
        for (int rank = 0; rank < MeshOf(layout).num_ranks(); rank++) {
          Streamed device(layout, rank, /*planned=*/true);
          Runtime runtime = device.runtime(DeviceKind::kCuda, overlap);
          runtime.chunks = 2;
          options.kernels = &runtime.kernels();
          ShardedModel model(job.model, options.model);
          bool cache = family != std::string_view("bert");  // whose tokens see later ones
          std::vector<ForwardProgram> programs = NextTokenPrograms(options, cache);
          programs.push_back(EvaluationProgram(options));
          Forward forward(programs, model.model(), ExecutorKind::kCompiled, options, runtime);
          hashes.insert(forward.Hash());
          for (size_t i = 0; i < forward.programs().size(); i++)
            groups += GroupsIn(Compile(forward.traced(i).local(), runtime, "groups"), runtime);
        }
        EXPECT_EQ(hashes.size(), 1u) << family << " " << Describe(layout) << ", overlap " << int(overlap);
        of_layout.merge(hashes);
      }
      other_orders += of_layout.size() > 1;
    }
  EXPECT_GT(groups, 100);
  EXPECT_GT(other_orders, 5) << "the hash does not see the order of the compiled program";
}

}  // namespace
}  // namespace weft
