// The loop as a whole, in process: what it writes, and when it stops.
#include "weft/train/loop/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "parallel/limited_runtime.h"
#include "support/safetensors_testing.h"
#include "tokens/data_testing.h"
#include "train/event_testing.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/config/model_of.h"

namespace weft {
namespace {

using namespace testing_;
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

Parameters RandomWeights(const Config& config) {
  Parameters parameters;
  RunRanks(1, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, MeshOf(config));
    TrainingStep step(ModelOf(config), StepOptionsOf(config));
    Runtime runtime = RuntimeOf(context, mesh);
    State state(mesh.shape(), mesh.coords());
    step.AddEntries(state);
    step.InitParameters(state, runtime);
    for (const Parameter* p : step.model().Parameters()) parameters[p->path()] = state.At(p->path()).local;
  });
  return parameters;
}

// A model of a few thousand parameters on the folder's text, in the file x.yaml.
class TrainerTest : public testing::Test {
 protected:
  struct Loaded {
    Config config;
    Dataset data;
  };
  absl::StatusOr<Loaded> Load(const Words& overrides) const {
    absl::StatusOr<Config> config = LoadConfig(path_, overrides);
    if (!config.ok()) return config.status();
    if (absl::Status s = Resolve(*config, int(config->mesh.ranks())); !s.ok()) return s;
    absl::StatusOr<Dataset> data = Dataset::Load(*config);
    if (!data.ok()) return data.status();
    if (absl::Status s = ResolveVocab(*config, data->tokenizer_vocab()); !s.ok()) return s;
    return Loaded{*std::move(config), *std::move(data)};
  }
  absl::Status Train(const Words& overrides) const {
    absl::StatusOr<Loaded> loaded = Load(overrides);
    if (!loaded.ok()) return loaded.status();
    const Config& config = loaded->config;
    std::vector<absl::Status> statuses(size_t(config.mesh.ranks()));
    RunRanks(int(statuses.size()), [&](Context& context, GroupFactory& groups) {
      RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
      RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      if (!device_.empty()) context.AddDevice(std::make_unique<LimitedRuntime>(SIZE_MAX, SIZE_MAX, device_));
      DeviceMesh mesh(context, groups, MeshOf(config));
      statuses[size_t(context.rank())] = Trainer(config, loaded->data, context, mesh).Run();
    });
    for (const absl::Status& status : statuses) EXPECT_EQ(status.ok(), statuses[0].ok()) << status;
    return statuses[0];
  }
  // The losses of all steps, then those of all evaluations.
  std::vector<double> Losses(const Words& overrides) const {
    absl::Status status = Train(overrides);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<double> losses;
    for (const char* name : {"loss", "val_loss"})
      for (const nlohmann::json& event : Events(log_))
        if (event["event"] != "end" && event.contains(name)) losses.push_back(event[name]);
    return losses;
  }
  std::string Fails(const Words& overrides) const {
    absl::Status status = Train(overrides);
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    return std::string(status.message());
  }

  std::string device_;  // a name that the CPU goes by
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

// One rank writes, and every number is that of the JSON lines, in f32.
TEST_F(TrainerTest, TensorBoardGetsTheNumbersOfTheJsonLines) {
  std::string folder = folder_.Path("events");
  ASSERT_TRUE(Train({"mesh.dp=2", "train.eval_every=2", "log.tensorboard=" + folder}).ok());
  std::map<std::pair<int64_t, std::string>, float> expected, got;
  for (const nlohmann::json& e : Events(log_))
    for (auto [tag, key] : {std::pair{"loss/train", "loss"},
                            {"grad_norm", "grad_norm"},
                            {"learning_rate", "lr"},
                            {"tokens_per_second", "tokens_per_s"},
                            {"memory/peak_bytes", "peak_bytes"},
                            {"loss/validation", "val_loss"},
                            {"bits_per_byte/validation", "bits_per_byte"}})
      if (e["event"] != "end" && e.contains(key)) expected[{e["step"], tag}] = float(double(e[key]));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files++;
    for (const Event& event : ReadEventFile(entry.path().string()))
      for (const auto& [tag, value] : event.scalars) got[{event.step, tag}] = value;
  }
  EXPECT_EQ(files, 1);
  EXPECT_EQ(expected.size(), 3u * 5 + 2 * 2);
  EXPECT_EQ(got, expected);
}

TEST_F(TrainerTest, ALossThatIsNotFiniteEndsTheRun) {
  std::string error = Fails({"optimizer.lr=1e38", "schedule.min_lr=0", "data.val=0"});
  EXPECT_NE(error.find("the loss of step 2 is nan"), error.npos) << error;
  EXPECT_NE(error.find("lower optimizer.lr"), error.npos) << error;
  std::vector<nlohmann::json> events = Events(log_);
  EXPECT_EQ(events.back()["event"], "step");
  EXPECT_TRUE(events.back()["loss"].is_null());
}

// Steps at too high a scale are logged and passed over; the run continues when it has fallen.
TEST_F(TrainerTest, AnF16RunFindsItsLossScale) {
  for (const char* executor : {"compiled", "interpret", "eager"}) {
    Words words{"precision.compute=f16", "loss_scale.initial=1e12", "loss_scale.backoff_factor=0.001", "train.steps=8",
                std::string("executor=") + executor};
    ASSERT_TRUE(Train(words).ok());
    std::vector<nlohmann::json> events = Events(log_);
    std::erase_if(events, [](const nlohmann::json& e) { return e["event"] != "step"; });
    ASSERT_EQ(events.size(), 8u);
    EXPECT_EQ(events[0]["loss_scale"], 999999995904.0);  // of f32
    EXPECT_TRUE(events[0]["grad_norm"].is_null());
    EXPECT_EQ(events[0]["skipped"], 1);
    EXPECT_EQ(events[0]["loss"], events[1]["loss"]) << "the first step changed a weight";
    EXPECT_LT(double(events[7]["loss_scale"]), 1e7);
    EXPECT_LT(double(events[7]["loss"]), double(events[0]["loss"]));
    EXPECT_GE(int(events[7]["skipped"]), 2);
    EXPECT_LT(int(events[7]["skipped"]), 4);
  }
}

// Weights that are infinite are not the scale's fault: 4, 2, 1, and the run ends.
TEST_F(TrainerTest, GradientsThatAreNotFiniteAtTheLeastScaleEndTheRun) {
  Words words{"precision.compute=f16", "loss_scale.initial=4", "optimizer.lr=1e38", "data.val=0", "train.steps=50"};
  std::string error = Fails(words);
  EXPECT_NE(error.find("the gradient norm of step 4 is nan although the loss scale has fallen to loss_scale.min = 1 "
                       "(3 updates skipped)"),
            error.npos)
      << error;
  EXPECT_EQ(Events(log_).back()["step"], 4);
  EXPECT_TRUE(Events(log_).back()["loss"].is_null());
  words.insert(words.end(), {"executor=interpret", "mesh.dp=2"});
  try {
    Train(words).IgnoreError();
    ADD_FAILURE() << "expected the trap of executor=interpret";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("NaN"), std::string::npos) << e.what();
  }
}

TEST_F(TrainerTest, AValidationLossThatIsNotFiniteEndsTheRun) {
  for (const char* executor : {"compiled", "eager"}) {
    std::string error = Fails({"optimizer.lr=1e38", "train.steps=1", std::string("executor=") + executor});
    EXPECT_NE(error.find("the validation loss after step 1 is nan"), error.npos) << error;
    EXPECT_EQ(Events(log_).back()["event"], "step");
  }
}

// With a learning rate too small to move a parameter, only the loss itself can differ. It is linear in the
// smoothing, (1 - e) CE + e (lse - mean of the logits); the evaluation knows nothing of it.
TEST_F(TrainerTest, LabelSmoothingChangesTheTrainingLossAlone) {
  auto at = [&](const char* smoothing) {
    return Losses({"optimizer.lr=1e-300", "precision.compute=f64", std::string("train.label_smoothing=") + smoothing});
  };
  std::vector<double> none = at("0"), some = at("0.1"), more = at("0.2");
  ASSERT_EQ(none.size(), 4u);
  for (size_t i = 0; i < 3; i++) {
    EXPECT_GT(std::abs(some[i] - none[i]), 1e-4);
    EXPECT_NEAR(more[i] - none[i], 2 * (some[i] - none[i]), 1e-12);
  }
  EXPECT_EQ(none[3], some[3]);
}

// 6 FLOPs per parameter except for the learned positions, and 12 L h q s; two ranks.
TEST_F(TrainerTest, ModelFlopsUtilizationIsLoggedWhereThePeakIsKnown) {
  double parameters = 8 * (12 * 8 + 13) + 256 * 8 + 2 * 8, flops = 6 * parameters + 12 * 8 * 8;
  for (const char* name : {"NVIDIA H200", "CPU"})
    for (const char* compute : {"bf16", "f32"}) {
      device_ = name;
      ASSERT_TRUE(Train({std::string("precision.compute=") + compute, "mesh.dp=2"}).ok());
      for (const nlohmann::json& event : Events(log_)) {
        if (event["event"] != "step") continue;
        bool known = name == std::string("NVIDIA H200") && compute == std::string("bf16");
        ASSERT_EQ(event["mfu"].is_number(), known) << event;
        if (!known) continue;
        double mfu = event["tokens_per_s"].get<double>() * flops / (2 * 989.5e12);
        EXPECT_NEAR(event["mfu"].get<double>(), mfu, 1e-9 * mfu);
      }
    }
}

// 257 token kinds split unevenly over every mesh; f64, so that only the order of sums differs.
TEST_F(TrainerTest, LabelSmoothingIsTheSameOnEveryMesh) {
  for (const char* family : {"gpt2", "llama"})
    for (const char* executor : {"compiled", "interpret", "eager"}) {
      Words words{std::string("model.family=") + family,
                  std::string("executor=") + executor,
                  "model.vocab=257",
                  "precision.compute=f64",
                  "train.label_smoothing=0.15",
                  "train.steps=5"};
      std::vector<double> one = Losses(words);
      for (auto [dp, tp] : {std::pair{1, 2}, {1, 3}, {2, 1}, {2, 2}}) {
        Words mesh = words;
        mesh.insert(mesh.end(), {fmt::format("mesh.dp={}", dp), fmt::format("mesh.tp={}", tp)});
        std::vector<double> sharded = Losses(mesh);
        ASSERT_EQ(sharded.size(), one.size());
        for (size_t i = 0; i < one.size(); i++) EXPECT_NEAR(sharded[i], one[i], 1e-10 * one[i]) << dp << " x " << tp;
      }
    }
}

// Shards that hold the text's bytes train bit for bit as the text does, on every mesh.
TEST_F(TrainerTest, TokenShardsTrainAsTheTextTheyHold) {
  std::string shards = WriteShards(folder_, "shards", Read(folder_.Path("a.txt")));
  for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}, {3, 1}}) {
    Words mesh{fmt::format("mesh.dp={}", dp), fmt::format("mesh.tp={}", tp)}, of_shards = mesh;
    of_shards.insert(of_shards.end(), {"data.train=" + shards, "model.vocab=256"});
    std::vector<double> text = Losses(mesh);
    auto evaluated = [&] {
      std::vector<nlohmann::json> events = Events(log_);
      return *std::find_if(events.begin(), events.end(), [](const auto& event) { return event["event"] == "eval"; });
    };
    nlohmann::json eval = evaluated();
    EXPECT_TRUE(eval["bits_per_byte"].is_number());
    EXPECT_EQ(Losses(of_shards), text) << dp << " x " << tp;
    for (const char* key : {"bits_per_byte", "bytes"}) EXPECT_EQ(evaluated()[key], eval[key]) << key;
  }
}

// A checkpoint of the values that a seed draws trains bit for bit as the seed does: the weights are all that it gives.
TEST_F(TrainerTest, ACheckpointOfRandomWeightsTrainsAsTheRandomWeights) {
  for (const char* family : {"gpt2", "llama"})
    for (const char* mode : {"parallel.fsdp=none", "parallel.fsdp=gradients", "parallel.fsdp=full"}) {
      Words words{std::string("model.family=") + family, mode, "train.seed=3"};
      Parameters drawn = RandomWeights(Load(words)->config);
      folder_.Write("m/model.safetensors", Pack(family == std::string("gpt2") ? HfGpt2(drawn, 1, 8, DType::kF32)
                                                                              : HfLlama(drawn, 1, 8, DType::kF32)));
      for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}, {1, 3}}) {
        Words mesh = words;
        mesh.insert(mesh.end(), {fmt::format("mesh.dp={}", dp), fmt::format("mesh.tp={}", tp)});
        std::vector<double> random = Losses(mesh);
        mesh.push_back("model.init=" + folder_.Path("m"));
        EXPECT_EQ(Losses(mesh), random) << family << " " << mode << " " << dp << " x " << tp;
      }
    }
}

// ---- train.objective: masked. ----

const Words kMasked = {"model.family=bert", "train.objective=masked", "precision.compute=f64", "model.dropout=0.1",
                       "data.val=0.2",      "train.steps=4",          "train.global_batch=5",  "train.eval_every=2"};

// Each row has about one target in its 8 tokens, so that ranks differ in their numbers of targets, or have none.
TEST_F(TrainerTest, TheMaskedObjectiveIsTheSameOnEveryMesh) {
  std::vector<std::vector<double>> of_transform;
  for (const char* transform : {"model.transform=true", "model.transform=false"}) {
    Words words = kMasked;
    words.insert(words.end(), {transform, "data.train=" + folder_.Write("m.txt", testing_::Letters(500))});
    std::vector<double> one = Losses(words);
    ASSERT_EQ(one.size(), 4u + 2);
    EXPECT_LT(one[5], one[4]) << "the validation loss falls";
    double worst = 0;
    for (auto [replicate, dp, tp] : {std::tuple{1, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 1, 1}, {2, 2, 1}, {2, 1, 2}})
      for (const char* fsdp : {"none", "full"}) {
        Words mesh = words;
        for (auto [key, n] : {std::pair{"replicate", replicate}, {"dp", dp}, {"tp", tp}})
          mesh.push_back(fmt::format("mesh.{}={}", key, n));
        mesh.push_back(std::string("parallel.fsdp=") + fsdp);
        std::vector<double> sharded = Losses(mesh);
        ASSERT_EQ(sharded.size(), one.size());
        for (size_t i = 0; i < one.size(); i++) {
          worst = std::max(worst, std::abs(sharded[i] - one[i]) / one[i]);
          EXPECT_NEAR(sharded[i], one[i], 1e-9 * one[i]) << fmt::format("{}", fmt::join(mesh, " "));
        }
      }
    fmt::print("shown: masked, {}: losses of 12 layouts are one rank's within {:.1e}\n", transform, worst);
    of_transform.push_back(one);
  }
  EXPECT_NE(of_transform[0], of_transform[1]);
}

// Weights that do not move have one evaluation loss, as its masks do not depend on the step. Those of training do: here
// every step has the same four windows of text.
TEST_F(TrainerTest, EvaluationsMaskTheSameTokensAtEveryStep) {
  Words words = kMasked;
  for (const char* word :
       {"optimizer.lr=1e-300", "train.eval_every=1", "train.global_batch=4", "model.dropout=0", "data.shuffle=false"})
    words.emplace_back(word);
  words.push_back("data.train=" + folder_.Write("b.txt", testing_::Letters(4 * 8 + 1)));
  words.push_back("data.val=" + folder_.Write("v.txt", testing_::Letters(200)));
  std::vector<double> losses = Losses(words);
  ASSERT_EQ(losses.size(), 4u + 4);
  EXPECT_EQ(std::set<double>(losses.begin(), losses.begin() + 4).size(), 4u) << "training";
  EXPECT_EQ(std::set<double>(losses.begin() + 4, losses.end()).size(), 1u) << "evaluation";
}

}  // namespace
}  // namespace weft
