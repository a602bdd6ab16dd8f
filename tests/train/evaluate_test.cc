// weft eval's number is the trainer's: bit for bit on its mesh, to rounding on any other.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "share.h"
#include "support/infer_testing.h"
#include "weft/dist/group/mesh.h"
#include "weft/train/infer/generate.h"

namespace weft {
namespace {

using namespace testing_;

class Evaluation : public InferTest {
 protected:
  // The trainer's validation loss after its last step, whose state is then in `dir`.
  nlohmann::json TrainersEval(const Words& words, const std::string& dir) {
    std::filesystem::remove(log_);
    absl::Status status = Train(words + SaveTo(dir));
    EXPECT_TRUE(status.ok()) << status;
    nlohmann::json last;
    std::ifstream file(log_);
    for (std::string line; std::getline(file, line);)
      if (nlohmann::json event = nlohmann::json::parse(line); event["event"] == "eval") last = event;
    return last;
  }
  EvalRecord Eval(const std::string& path, const Words& words, int ranks) {
    absl::StatusOr<EvalRecord> record = Evaluate(Path(path), words, ranks);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? *record : EvalRecord();
  }
};

TEST_F(Evaluation, IsTheTrainersNumberBitForBit) {
  int cases = 0;
  for (const char* compute : {"f32", "bf16", "f16", "f64"})
    for (const char* fsdp : {"none", "gradients", "full"})
      for (auto [dp, tp] : {std::pair{1, 1}, {2, 1}, {1, 3}, {2, 2}}) {
        if (cases++ % test::Share() != 0) continue;
        Words words = Mesh(dp, tp) + Words{"data.val=0.3", std::string("precision.compute=") + compute,
                                           std::string("parallel.fsdp=") + fsdp};
        if (cases % 3 == 0) words.push_back("train.micro_batch=2");
        if (cases % 4 == 0) words.push_back("train.eval_batches=2");
        nlohmann::json want = TrainersEval(words, "c");
        EvalRecord got = Eval("c", {}, dp * tp);
        EXPECT_EQ(got.val_loss, double(want["val_loss"])) << compute << " " << fsdp << " " << dp << "x" << tp;
        EXPECT_EQ(got.tokens, int64_t(want["tokens"]));
        EXPECT_EQ(BitsPerByte(got), double(want["bits_per_byte"]));
        std::filesystem::remove_all(Path("c"));
      }
}

TEST_F(Evaluation, IsTheSameOnEveryMeshToRounding) {
  nlohmann::json want = TrainersEval(Mesh(2, 2) + Words{"data.val=0.3", "parallel.sequence_parallel=true"}, "c");
  for (int ranks : {1, 2, 3, 4, 6}) {
    EvalRecord got = Eval("c", {}, ranks);
    EXPECT_NEAR(got.val_loss, double(want["val_loss"]), 2e-6 * got.val_loss) << ranks;
    EXPECT_EQ(got.tokens, int64_t(want["tokens"]));
  }
  for (const char* executor : {"executor=interpret", "executor=eager"})
    EXPECT_NEAR(Eval("c", {executor}, 4).val_loss, double(want["val_loss"]), 2e-6 * double(want["val_loss"]));
}

// On the mesh of its trainer, copies with it, bit for bit; on others they are left out unless they are asked for.
TEST_F(Evaluation, OfAModelTrainedInCopiesIsTheTrainers) {
  Words copies{"mesh.replicate=2", "mesh.dp=2", "mesh.tp=2", "parallel.fsdp=full", "data.val=0.3"};
  nlohmann::json want = TrainersEval(copies, "c");
  EXPECT_EQ(Eval("c", {}, 8).val_loss, double(want["val_loss"]));
  for (const Words& words : {Words{}, {"mesh.replicate=2"}, {"mesh.replicate=-1", "mesh.dp=1", "mesh.tp=1"}})
    EXPECT_NEAR(Eval("c", words, 4).val_loss, double(want["val_loss"]), 2e-6 * double(want["val_loss"]));
  GenerateOptions options{.prompt = "abc", .tokens = 8};
  absl::StatusOr<std::vector<int32_t>> one = Write(Path("c"), Mesh(1, 1), 1, options),
                                       all = Write(Path("c"), {}, 8, options);
  ASSERT_TRUE(one.ok() && all.ok());
  EXPECT_EQ(*all, *one);
}

// Other text by the table of the checkpoint, whether or not the training text is there and whatever it holds.
TEST_F(Evaluation, TakesOtherTextByTheCheckpointsTable) {
  TrainersEval({"data.tokenizer=chars", "data.val=0.3"}, "c");
  std::string other = folder_.Write("other.txt", testing_::Letters(90));
  double with_text = Eval("c", {"data.val=" + other}, 1).val_loss;
  folder_.Write("a.txt", "0123456789 and other characters, which would make another table");
  EXPECT_EQ(Eval("c", {"data.val=" + other}, 1).val_loss, with_text);
  std::filesystem::remove(Path("a.txt"));
  EXPECT_EQ(Eval("c", {"data.val=" + other}, 1).val_loss, with_text);
  folder_.Write("other.txt", "abc3");
  absl::Status status = Evaluate(Path("c"), {"data.val=" + other}, 2).status();
  EXPECT_NE(status.message().find("the character \"3\" at offset 3 is not among the"), std::string::npos) << status;
}

}  // namespace
}  // namespace weft
