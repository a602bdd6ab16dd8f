// Models that are only read store their parameters in the types in which they are used. It changes no bit of what they
// compute, because a program that casts the stored values rounds them in the same way.
#include <fmt/format.h>

#include "support/infer_testing.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/train/config/model_of.h"
#include "weft/train/infer/loaded_model.h"
#include "weft/train/infer/next_token.h"
#include "weft/train/infer/source.h"

namespace weft {
namespace {

using namespace testing_;

class StoredTypes : public InferTest {
 protected:
  // The logits of models whose parameters are stored as in training, as text_sampler.cc has them.
  static std::vector<double> FromTrainingsTypes(const Opened& o, const StepOptions& step,
                                                std::span<const int32_t> text) {
    StepOptions options = step;
    options.kernels = &o.context.kernels(DeviceKind::kCpu);
    ShardedModel model(ModelOf(o.source.config), options.model);
    Runtime runtime = RuntimeOf(o.context, o.mesh, DeviceKind::kCpu);
    State state(o.mesh.shape(), o.mesh.coords(), runtime.memory());
    Forward forward(NextTokenPrograms(options), model.model(), ExecutorKind::kCompiled, options, runtime);
    AddEntries(state, forward.Entries());
    AddEntries(state, model.Entries());
    absl::Status loaded = o.source.checkpoint->Load(state);
    EXPECT_TRUE(loaded.ok()) << loaded;
    model.RefreshCopies(state, runtime);
    forward.Bind(state);
    NextToken next({state, options, forward});
    std::span<const double> logits = next.Logits(text);
    return {logits.begin(), logits.end()};
  }

  static void Check(const Opened& o) {
    StepOptions step = NextTokenOptions(o.source.config, DeviceKind::kCpu);
    DType compute = step.model.precision.compute;
    LoadedModel model(o.source.config, step, NextTokenPrograms(step), o.context, o.mesh, DeviceKind::kCpu);
    absl::Status loaded = model.Load(o.source);
    ASSERT_TRUE(loaded.ok()) << loaded;
    int weights = 0, norms = 0;
    for (const auto& [name, entry] : model.state().entries()) {
      if (!name.starts_with("blocks.") && !name.starts_with("embed.")) continue;
      bool norm = name.find("norm") != std::string::npos;
      (norm ? norms : weights)++;
      EXPECT_EQ(entry.local.dtype(), norm ? AccumulateType(compute) : compute) << name;
    }
    EXPECT_GT(weights, 10);
    EXPECT_GT(norms, 3);
    std::vector<int32_t> text{'a', 'b', 'c'};
    NextToken next(model);
    std::span<const double> logits = next.Logits(text);
    EXPECT_EQ(std::vector<double>(logits.begin(), logits.end()), FromTrainingsTypes(o, step, text));
  }
};

TEST_F(StoredTypes, AreThoseOfUseAndChangeNoBit) {
  for (const char* fsdp : {"none", "gradients", "full"}) {
    absl::Status trained =
        Train(Words{"model.family=gpt2", "train.steps=5", fmt::format("parallel.fsdp={}", fsdp)} + SaveTo(fsdp));
    ASSERT_TRUE(trained.ok()) << trained;
    for (const char* compute : {"f64", "f32", "bf16", "f16"})
      for (auto [dp, tp] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
        SCOPED_TRACE(fmt::format("fsdp {}, {}, {}x{}", fsdp, compute, dp, tp));
        absl::Status status = OnSource(Path(fsdp), Mesh(dp, tp) + Words{fmt::format("precision.compute={}", compute)},
                                       dp * tp, [](const Opened& o) {
                                         Check(o);
                                         return absl::OkStatus();
                                       });
        EXPECT_TRUE(status.ok()) << status;
      }
  }
}

}  // namespace
}  // namespace weft
