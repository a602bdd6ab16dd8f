// Export: what transformers is to read holds the checkpoint's weights, whatever mesh saved it.
#include "weft/train/huggingface/hf_export.h"

#include <fmt/format.h>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "support/checkpoint_testing.h"
#include "support/safetensors_testing.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/config/model_of.h"
#include "weft/train/huggingface/hf_names.h"
#include "weft/train/huggingface/initial_weights.h"

namespace weft {
namespace {

using namespace testing_;

class Export : public CheckpointTest {
 protected:
  std::string Saved(const Words& words) const {
    absl::Status trained = Train(words + SaveTo("c") + Words{"train.steps=1"});
    EXPECT_TRUE(trained.ok()) << trained;
    return StepFolder(folder_.Path("c"), 1);
  }
  // Every parameter, read from the exported file through the names' table.
  void ExpectTheWeights(const Words& words, DType dtype) {
    std::string saved = Saved(words), out = folder_.Path("out");
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(saved);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    absl::StatusOr<HfExport> done = ExportHf(*checkpoint, out, dtype);
    ASSERT_TRUE(done.ok()) << done.status();
    absl::StatusOr<Config> config = Load(words + Words{"model.init=" + out});
    ASSERT_TRUE(config.ok()) << config.status();
    absl::StatusOr<InitialWeights> weights = InitialWeights::Open(*config);  // all tensors there, none besides
    ASSERT_TRUE(weights.ok()) << weights.status();
    absl::StatusOr<Safetensors> file = Safetensors::Open(out);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(int64_t(file->tensors().size()), done->tensors);
    const HfFamily& family = *FindHfFamily(config->model.family);
    std::unique_ptr<Model> model = MakeModel(ModelOf(*config));
    for (const Parameter* p : model->Parameters()) {
      HfPlace place = *PlaceInHf(family, p->path(), p->shape(), config->model.heads);
      Tensor got = Tensor::Zeros(dtype, p->shape()), want = Tensor::Zeros(dtype, p->shape());
      ReadBox(file->tensors().at(place.tensor), place, MakeView(got.data(), dtype, p->shape()));
      Box whole{Shape(p->shape().size(), 0), p->shape()};
      checkpoint->Read(p->path(), {whole, dtype, want.as<std::byte>(), RowMajor(p->shape())});
      EXPECT_EQ(got.ToDoubles(), want.ToDoubles()) << p->path();
    }
    std::filesystem::remove_all(out);
    std::filesystem::remove_all(folder_.Path("c"));
  }
};

TEST_F(Export, HoldsTheWeightsOfAnyMesh) {
  const Words models[] = {{},
                          {"model.family=gpt2"},
                          {"model.tie_embeddings=true"},
                          {"model.heads=2", "model.dim=8"},
                          {"model.family=neox", "model.rotary_share=1"},
                          {"model.family=neox", "model.dim=24", "model.attention_bias=false"},
                          {"model.family=bert", "model.tie_embeddings=false"},
                          {"model.family=mistral", "model.head_dim=4", "model.window=3"},
                          {"model.family=gemma2", "model.window=0", "model.logit_softcap=0"},
                          {"model.rope_factor=8", "model.rope_low=2", "model.rope_context=64"}};
  for (const Words& model : models)
    for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}, {1, 3}})
      for (const char* fsdp : {"none", "full"})
        ExpectTheWeights(Mesh(dp, tp) + model + Words{std::string("parallel.fsdp=") + fsdp}, DType::kF32);
  for (DType dtype : {DType::kBF16, DType::kF16}) ExpectTheWeights(Mesh(1, 1), dtype);
}

// Models of random sizes, whose key and value heads are 1 to 4 query heads each: the files have the tensors of
// transformers' own layout, bit by bit.
TEST_F(Export, IsTheirLayoutForRandomSizes) {
  std::mt19937 random(5);
  auto draw = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  for (int trial = 0; trial < 120; trial++) {
    const char* families[] = {"gpt2", "llama", "neox", "bert", "mistral", "gemma2"};
    std::string family = families[trial % 6];
    int kv_heads = draw(1, 3), heads = kv_heads * draw(1, 4), dim = heads * 2 * draw(1, 3);
    Words words = Mesh(1, 1) + Words{"model.family=" + family,
                                     fmt::format("model.layers={}", draw(1, 3)),
                                     fmt::format("model.heads={}", heads),
                                     fmt::format("model.kv_heads={}", kv_heads),
                                     fmt::format("model.dim={}", dim),
                                     fmt::format("model.ffn={}", draw(1, 40)),
                                     fmt::format("model.context={}", draw(1, 12)),
                                     fmt::format("model.vocab={}", draw(256, 300)),
                                     fmt::format("model.tie_embeddings={}", draw(0, 1) == 1)};
    if (family == "neox") words.push_back("model.rotary_share=1");
    if (trial % 6 > 3) words.push_back(fmt::format("model.head_dim={}", 2 * draw(1, 4)));
    SCOPED_TRACE(fmt::format("{}", fmt::join(words, " ")));
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(Saved(words));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    std::string out = folder_.Path("out");
    absl::StatusOr<HfExport> done = ExportHf(*checkpoint, out, DType::kF32);
    ASSERT_TRUE(done.ok()) << done.status();
    Parameters parameters;
    Config config = *Load(words);
    std::unique_ptr<Model> model = MakeModel(ModelOf(config));
    for (const Parameter* p : model->Parameters()) {
      Tensor& t = parameters[p->path()] = Tensor::Zeros(DType::kF32, p->shape());
      Box whole{Shape(p->shape().size(), 0), p->shape()};
      checkpoint->Read(p->path(), {whole, DType::kF32, t.as<std::byte>(), RowMajor(p->shape())});
    }
    RawTensors want = HfLayout(family, parameters, config.model.layers, dim, DType::kF32);
    if (auto head = parameters.find("head.weight"); head != parameters.end())
      want[FindHfFamily(family)->head] = Raw(head->second);
    absl::StatusOr<Safetensors> got = Safetensors::Open(out);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->tensors().size(), want.size());
    for (const auto& [name, tensor] : got->tensors()) {
      std::string data(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
      EXPECT_EQ(want.count(name), 1u) << name;
      EXPECT_EQ(data, want[name].data) << name;
      EXPECT_EQ(std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()), want[name].shape) << name;
    }
    std::filesystem::remove_all(out);
    std::filesystem::remove_all(folder_.Path("c"));
  }
}

// What no weight shows is in config.json, and only there where it is in use.
TEST_F(Export, SaysHowPositionsAreScaled) {
  for (const Words& words : {Words{}, Words{"model.rope_factor=8"}}) {
    std::string out = folder_.Path("out");
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(Saved(Mesh(1, 1) + words));
    ASSERT_TRUE(checkpoint.ok() && ExportHf(*checkpoint, out, DType::kF32).ok());
    nlohmann::json json = nlohmann::json::parse(ReadFile(out + "/config.json"));
    EXPECT_EQ(json.contains("rope_scaling"), !words.empty());
    if (!words.empty()) {
      EXPECT_EQ(json["rope_scaling"]["rope_type"], "llama3");
    }
    absl::StatusOr<Config> other =
        Load(Words{"model.init=" + out} + (words.empty() ? Words{"model.rope_factor=8"} : Words{}));
    ASSERT_TRUE(other.ok()) << other.status();
    std::string error(InitialWeights::Open(*other).status().message());
    EXPECT_NE(error.find("as model.rope_factor is, got"), error.npos) << error;
    std::filesystem::remove_all(out);
    std::filesystem::remove_all(folder_.Path("c"));
  }
}

TEST_F(Export, RefusesWhatItCannotWrite) {
  auto refused = [&](const std::string& saved, const std::string& out, const char* why) {
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(saved);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    absl::Status status = ExportHf(*checkpoint, out, DType::kF32).status();
    EXPECT_NE(std::string(status.message()).find(why), std::string::npos) << status;
    EXPECT_FALSE(std::filesystem::exists(out + ".unfinished"));
  };
  std::string saved = Saved(Mesh(1, 1));
  refused(saved, folder_.Path("c"), "expected a folder to be made, got one that is there");
  refused(saved, folder_.Write("file", "") + "/out", "Not a directory");
  std::filesystem::remove_all(folder_.Path("c"));
  refused(Saved(Mesh(1, 1) + Words{"model.family=bert", "model.transform=false"}), folder_.Path("out"),
          "config.yaml: model.transform: expected 1, as transformers' models of family bert have it, got 0");
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("out")));
}

// A disk that fails at any of its chances leaves nothing, and the last chance is the name of the folder itself.
TEST_F(Export, IsOnTheDiskOrNotThere) {
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(Saved(Mesh(1, 1)));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::string out = folder_.Path("out"), parent = out.substr(0, out.rfind('/'));
  auto under = [&](const std::string& fault) {
    ::setenv("WEFT_FAULT", fault.c_str(), 1);
    absl::Status status = ExportHf(*checkpoint, out, DType::kF32).status();
    ::unsetenv("WEFT_FAULT");
    return status;
  };
  for (const char* point : {"mkdir", "create", "write", "fsync", "rename", "fsync_dir"}) {
    std::string last;
    int nth = 1;
    for (absl::Status status; !(status = under(fmt::format("{}:eio:{}", point, nth))).ok(); nth++) {
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_FALSE(std::filesystem::exists(out) || std::filesystem::exists(out + ".unfinished")) << point << nth;
      last = std::string(status.message());
    }
    EXPECT_GT(nth, 1) << point;
    if (point == std::string("fsync_dir")) {
      EXPECT_EQ(nth, 4);  // the new folder's name, its files, its last name
      EXPECT_EQ(last.find(parent + ": cannot be brought to the disk"), 0u) << last;
    }
    std::filesystem::remove_all(out);
  }
}

}  // namespace
}  // namespace weft
