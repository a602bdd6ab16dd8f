// A checkpoint from before its family had some of its keys stays the function that was trained.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/infer_testing.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/manifest.h"
#include "weft/train/huggingface/hf_export.h"
#include "weft/train/infer/generate.h"
#include "weft/train/io/crc32c.h"

namespace weft {
namespace {

using namespace testing_;

const Words kNeox{"model.family=neox", "model.heads=2", "model.dim=16",
                  "data.val=0.3",      "train.steps=4", "optimizer.lr=0.1"};
// neox before it had keys of its own: all dims of a head were rotated, and GELU was the tanh form.
const Words kFormer{"model.rotary_share=1", "model.exact_gelu=false"};

class EarlierCheckpoint : public InferTest {
 protected:
  void SetUp() override {
    absl::Status trained = Train(kNeox + kFormer + SaveTo("c") + Words{"checkpoint.every=2"});
    ASSERT_TRUE(trained.ok()) << trained;
    ASSERT_TRUE(Train(kNeox + SaveTo("current")).ok());
    std::filesystem::copy(Path("c"), Path("earlier"), std::filesystem::copy_options::recursive);
    for (int64_t step : {2, 4})
      RemoveKeys(StepFolder(Path("earlier"), step),
                 {"rotary_share", "exact_gelu", "parallel_residual", "attention_bias"});
  }

  // Makes config.yaml what a version without these keys wrote.
  static void RemoveKeys(const std::string& folder, const Words& keys) {
    std::istringstream in(ReadFile(folder + "/config.yaml"));
    std::string text;
    size_t removed = 0;
    for (std::string line; std::getline(in, line);) {
      bool named = std::any_of(keys.begin(), keys.end(), [&](auto& key) { return line.starts_with("  " + key + ":"); });
      removed += named;
      if (!named) text += line + "\n";
    }
    ASSERT_EQ(removed, keys.size());
    std::ofstream(folder + "/config.yaml") << text;
    nlohmann::json manifest = nlohmann::json::parse(ReadFile(folder + "/manifest.json"));
    manifest.erase("crc32c");
    for (nlohmann::json& file : manifest["files"])
      if (file["name"] == "config.yaml") {
        file["bytes"] = file["header_bytes"] = text.size();
        file["header_crc32c"] = Crc32c(text);
      }
    std::string body = manifest.dump(1);
    body.pop_back();  // the closing brace, which Sealed appends again
    std::ofstream(folder + "/manifest.json") << Sealed(body);
  }

  double Loss(const std::string& path, const Words& words = {}) {
    absl::StatusOr<EvalRecord> record = Evaluate(Path(path), words, 1);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? record->val_loss : 0;
  }
};

TEST_F(EarlierCheckpoint, IsEvaluatedAsItWasTrained) {
  double loss = Loss("c");
  EXPECT_EQ(Loss("earlier"), loss);
  for (const char* now : {"model.rotary_share=0.25", "model.exact_gelu=true"}) EXPECT_NE(Loss("earlier", {now}), loss);
}

TEST_F(EarlierCheckpoint, GeneratesAsItWasTrained) {
  GenerateOptions options{.prompt = "abc", .tokens = 8, .sampler = {.greedy = true}};
  auto now = Write(Path("c"), {}, 1, options), earlier = Write(Path("earlier"), {}, 1, options);
  ASSERT_TRUE(now.ok() && earlier.ok()) << earlier.status();
  EXPECT_EQ(*earlier, *now);
}

TEST_F(EarlierCheckpoint, IsNoted) {
  auto notes = [&](const std::string& path, const Words& words) {
    absl::StatusOr<ModelSource> source = OpenSource(path, words, Ranks(), MeshFill::kData);
    EXPECT_TRUE(source.ok()) << source.status();
    Words lines = source.ok() ? source->notes : Words();
    std::erase_if(lines, [](const std::string& line) { return line.starts_with("weights: "); });
    return lines;
  };
  const std::string folder = Path("earlier/step-000004");
  const std::string begins = "note: " + folder + "/config.yaml: no model.";
  EXPECT_EQ(notes(Path("earlier"), {}),
            (Words{begins + "rotary_share, as it is from before there was such a key: 1",
                   begins + "exact_gelu, as it is from before there was such a key: false"}));
  EXPECT_EQ(notes(Path("earlier"), kFormer), Words());
  EXPECT_EQ(notes(Path("c"), {}), Words());
  EXPECT_EQ(notes(Path("current"), {}), Words());
}

TEST_F(EarlierCheckpoint, IsExportedAsItWasTrained) {
  auto exported = [&](const std::string& name) {
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(Path(name) + "/step-000004");
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    absl::StatusOr<HfExport> done = ExportHf(*checkpoint, Path(name + "-out"), DType::kF32);
    EXPECT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(done->notes.size(), name == "earlier" ? 2u : 0u);
    return nlohmann::json::parse(ReadFile(Path(name + "-out") + "/config.json"));
  };
  nlohmann::json earlier = exported("earlier");
  EXPECT_EQ(earlier, exported("c"));
  EXPECT_NE(earlier, exported("current"));
}

// A run with the present defaults would continue it as another function.
TEST_F(EarlierCheckpoint, IsResumedOnlyAsItWasTrained) {
  const std::string from = Path("earlier/step-000002");
  auto refusal = [&](const Words& words) {
    return std::string(Train(kNeox + words + From("earlier/step-000002")).message());
  };
  const std::string as = ", as " + from + " has it from before there was such a key, got ";
  const std::string advice = "; all keys but those of model may differ";
  EXPECT_EQ(refusal({}), path_ + ":1:1: model.exact_gelu: expected false" + as + "true" + advice);
  EXPECT_EQ(refusal({"model.exact_gelu=false"}), path_ + ":1:1: model.rotary_share: expected 1" + as + "0.25" + advice);
  auto whole = Losses(kNeox + kFormer + From("c/step-000002"));
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(Losses(kNeox + kFormer + From("earlier/step-000002")), whole);
}

}  // namespace
}  // namespace weft
