// Which tokens affect the logits of a token, on every mesh: in an encoder those on both sides, in a decoder those up to
// it.
#include <gtest/gtest.h>

#include "support/rank_run.h"
#include "weft/core/compile/eager.h"
#include "weft/core/ops/ops.h"
#include "weft/dist/group/mesh.h"

namespace weft {
namespace {

using namespace testing_;

// Returns the logits of one sequence: [T, V].
std::vector<double> Logits(RankRun& run, const std::vector<int32_t>& tokens) {
  EagerBuilder eager(run.runtime, run.state.binder(), {run.options.seed, RandomPhase::kEval});
  BuilderScope builder(eager);
  ModelScope scope(run.options.model);
  Sharding replicated(run.options.model.mesh.num_axes());
  auto length = int64_t(tokens.size());
  Tensor ids = Tensor::Zeros(DType::kI32, {1, length});
  std::copy(tokens.begin(), tokens.end(), ids.as<int32_t>());
  Var logits = run.training.model()(eager.FromLocal(ids, {1, length}, replicated));  // [1, T, V]
  return eager.ToLocal(logits, replicated).ToDoubles();
}

TEST(Encoder, SeesBothSidesOfAToken) {
  for (const char* family : {"bert", "gpt2"})
    for (auto [dp, tp] : {std::pair{1, 1}, {1, 2}, {2, 2}})
      OnMesh({dp, tp}, [&, tp = tp, dp = dp](Context& context, DeviceMesh& mesh) {
        Job job{.model = Tiny(family), .precision = {DType::kF64, DType::kF64, DType::kF64}};
        job.model.dropout = 0;
        RankRun run(job, {dp, tp}, context, mesh);
        constexpr int64_t kLength = 7;
        const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2};
        std::vector<double> plain = Logits(run, tokens);
        const size_t kinds = plain.size() / kLength;
        for (size_t changed = 0; changed < kLength; changed++) {
          std::vector<int32_t> other = tokens;
          other[changed] = 30;
          std::vector<double> now = Logits(run, other);
          for (size_t at = 0; at < kLength; at++) {
            bool differs = !std::equal(now.begin() + long(at * kinds), now.begin() + long((at + 1) * kinds),
                                       plain.begin() + long(at * kinds));
            bool sees = std::string(family) == "bert" || changed <= at;
            EXPECT_EQ(differs, sees) << family << " " << dp << "x" << tp << ": token " << changed << " at " << at;
          }
        }
      });
}

}  // namespace
}  // namespace weft
