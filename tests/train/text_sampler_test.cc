// The texts that a run writes while it trains: those of weft generate from the same weights, on every mesh, and the
// training does not notice.
#include "weft/train/infer/text_sampler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/infer_testing.h"
#include "weft/core/host/message.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/config/model_of.h"
#include "weft/train/infer/generate.h"
#include "weft/train/infer/text_stream.h"
#include "weft/train/loop/trainer.h"

namespace weft {
namespace {

using namespace testing_;

class Samples : public InferTest {
 protected:
  // What a run with samples prints; its log goes to x.jsonl.
  std::string Printed(const Words& words) const {
    absl::StatusOr<Config> config = Load(words);
    EXPECT_TRUE(config.ok()) << config.status();
    absl::StatusOr<Dataset> data = Dataset::Load(*config);
    EXPECT_TRUE(data.ok()) << data.status();
    testing::internal::CaptureStdout();
    RunRanks(int(config->mesh.ranks()), [&](Context& context, GroupFactory& groups) {
      RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
      RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      DeviceMesh mesh(context, groups, MeshOf(*config));
      Trainer trainer(*config, *data, context, mesh);
      absl::StatusOr<std::unique_ptr<StepSampler>> sampler =
          MakeTextSampler(*config, *data, context, mesh, DeviceKind::kCpu);
      ASSERT_TRUE(sampler.ok()) << sampler.status();
      EXPECT_EQ(*sampler != nullptr, config->train.sample_every > 0);
      trainer.set_sampler(*std::move(sampler));
      absl::Status status = trainer.Run();
      EXPECT_TRUE(status.ok()) << status;
    });
    return testing::internal::GetCapturedStdout();
  }
  // Checks that samples are what weft generate writes from the checkpoints of their steps.
  void CheckWithCheckpoints(const Words& words) const {
    std::string out = Printed(Words{"train.sample_every=2", "checkpoint.every=2"} + SaveTo("c") + words);
    GenerateOptions options{.tokens = 100};
    options.sampler = {.temperature = 0.8, .seed = 1};
    for (int64_t step : {2, 4, 6}) {
      absl::StatusOr<std::vector<int32_t>> tokens = Write(StepFolder(folder_.Path("c"), step), Mesh(2, 1), 2, options);
      ASSERT_TRUE(tokens.ok()) << tokens.status();
      Tokenizer bytes = Tokenizer::Bytes();
      TextStream stream;
      std::string text = stream.Add(bytes.Decode(*tokens));
      text += stream.End();
      EXPECT_EQ("step " + std::to_string(step) + "/6 | the model writes:\n" + SampleOf(out, step),
                Printable(SampleLines({.step = step, .text = text}, 6) + "\n"));
    }
    std::filesystem::remove_all(folder_.Path("c"));
  }
  // The lines from "the model writes:" of a step to the next line that is not indented.
  static std::string SampleOf(const std::string& out, int64_t step) {
    std::string head = fmt::format("step {}/6 | the model writes:\n", step);
    size_t at = out.find(head), end = at;
    if (at == out.npos) return "";
    do end = out.find('\n', end) + 1;
    while (out.compare(end, 2, "  ") == 0);
    return out.substr(at + head.size(), end - at - head.size());
  }
};

TEST_F(Samples, AreTheSameOnEveryMeshAndExecutor) {
  const Words words{"train.sample_every=3", "precision.compute=f64", "optimizer.lr=0.1"};
  std::string alone = Printed(words), third = SampleOf(alone, 3), sixth = SampleOf(alone, 6);
  EXPECT_GT(third.size(), 100u) << alone;
  EXPECT_GT(sixth.size(), 100u) << alone;
  EXPECT_NE(third, sixth);
  EXPECT_EQ(SampleOf(alone, 2) + SampleOf(alone, 4), "");
  for (const Words& other : {Mesh(2, 1), Mesh(1, 3), Mesh(2, 2), Mesh(2, 2) + Words{"parallel.fsdp=full"},
                             Mesh(2, 1) + Words{"parallel.fsdp=gradients", "train.micro_batch=1"},
                             Words{"executor=interpret"}, Mesh(2, 1) + Words{"executor=eager"}}) {
    std::string out = Printed(words + other);
    EXPECT_EQ(SampleOf(out, 3), third) << other[0];
    EXPECT_EQ(SampleOf(out, 6), sixth) << other[0];
  }
}

// The same text as from the checkpoint of the step.
TEST_F(Samples, AreThoseOfTheWeightsAsTheyAre) { CheckWithCheckpoints(Mesh(2, 1)); }

// A narrow type that the config computes in is not that of the texts on a CPU, so these are of the master weights.
TEST_F(Samples, AreOfTheMasterWeights) {
  const std::string plain = ReadFile(path_);
  for (const char* precision : {"compute: bf16", "compute: bf16, params: bf16", "compute: bf16, params: f64",
                                "compute: bf16, copies: always", "compute: bf16, copies: never"})
    for (const char* fsdp : {"none", "gradients", "full"}) {
      std::string text = fmt::format("{}precision: {{{}}}\nparallel: {{fsdp: {}}}\n", plain, precision, fsdp);
      path_ = folder_.Write("precision.yaml", text);
      SCOPED_TRACE(text);
      bool refused = text.find("never") != text.npos && text.find("gradients") != text.npos;
      ASSERT_EQ(Load(Mesh(2, 1)).ok(), !refused);
      if (refused) continue;
      CheckWithCheckpoints(Mesh(2, 1));
    }
}

TEST_F(Samples, LeaveTheTrainingAsItIs) {
  Printed(Mesh(2, 1));
  std::vector<std::string> plain = StepsAndEvals();
  Printed(Mesh(2, 1) + Words{"train.sample_every=1"});
  EXPECT_EQ(StepsAndEvals(), plain);
  EXPECT_EQ(plain.size(), 6u);
}

TEST_F(Samples, NeedATokenizer) {
  std::string shards = WriteShards(folder_, "shards", Letters(300));
  absl::StatusOr<Config> config = Load({"data.train=" + shards, "train.sample_every=1"});
  ASSERT_TRUE(config.ok()) << config.status();
  absl::StatusOr<Dataset> data = Dataset::Load(*config);
  ASSERT_TRUE(data.ok()) << data.status();
  RunRanks(1, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    DeviceMesh mesh(context, groups, MeshOf(*config));
    absl::Status status = MakeTextSampler(*config, *data, context, mesh, DeviceKind::kCpu).status();
    EXPECT_TRUE(
        std::string(status.message()).starts_with("command line: train.sample_every: needs the tokenizer of the text"))
        << status;
  });
}

}  // namespace
}  // namespace weft
