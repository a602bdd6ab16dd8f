// A run that was stopped continues as if it had not been: bit for bit on its mesh, to rounding on any other.
#include <fmt/format.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "error_of.h"
#include "share.h"
#include "support/checkpoint_testing.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/config/model_of.h"
#include "weft/train/loop/trainer.h"

namespace weft {
namespace {

using namespace testing_;

class Resume : public CheckpointTest {
 protected:
  // Stopped at every step of `stops` in turn, and the state at the end against that of a run in one go.
  void ExpectTheSame(const Words& words, const std::string& what) {
    Words every{"checkpoint.every=2"};
    auto whole = Losses(words + every + SaveTo("whole"));
    ASSERT_EQ(whole.size(), 6u) << what;
    auto first = Losses(words + SaveTo("part") + Words{"train.steps=2"});
    auto rest = Losses(words + SaveTo("part") + Words{"checkpoint.resume=auto"});
    ASSERT_EQ(first.size() + rest.size(), 6u) << what;
    for (const auto& [step, loss] : whole) EXPECT_EQ(step <= 2 ? first[step] : rest[step], loss) << what << " " << step;
    EXPECT_EQ(TensorsOf(folder_.Path("part/step-000006")), TensorsOf(folder_.Path("whole/step-000006"))) << what;
    EXPECT_EQ(Losses(words + From("whole/step-000004")).at(6), whole[6]) << what;
    std::filesystem::remove_all(folder_.Path("whole"));
    std::filesystem::remove_all(folder_.Path("part"));
  }
};

TEST_F(Resume, IsBitIdenticalOnTheSameMesh) {
  int cases = 0;
  for (const char* compute : {"f32", "bf16", "f16"})
    for (const char* fsdp : {"none", "gradients", "full"})
      for (int micro : {5, 1})
        for (auto [dp, tp] : {std::pair{1, 1}, {2, 1}, {1, 3}, {2, 2}}) {
          if (cases++ % test::Share() != 0) continue;
          ExpectTheSame(
              Mesh(dp, tp) + Words{std::string("precision.compute=") + compute, std::string("parallel.fsdp=") + fsdp,
                                   fmt::format("train.micro_batch={}", micro), "loss_scale.initial=1e8",
                                   "loss_scale.growth_interval=2"},
              fmt::format("{} {} micro {} {}x{}", compute, fsdp, micro, dp, tp));
        }
}

// A save is of the state that its step has left, and takes the time of a thread next to that of training: on a disk
// that is slow, later steps are done and logged before it is there.
TEST_F(Resume, StepsGoOnWhileACheckpointIsWritten) {
  for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}}) {
    Words words = Mesh(dp, tp) + SaveTo("c") + Words{"checkpoint.every=3", "log.every=1"};
    ::setenv("WEFT_FAULT", fmt::format("create:slow:{}", dp).c_str(), 1);  // times are counted afresh for another one
    testing::internal::CaptureStdout();
    auto whole = Losses(words);
    std::string said = testing::internal::GetCapturedStdout();
    ::unsetenv("WEFT_FAULT");
    size_t saved = said.find("checkpoint: " + folder_.Path("c/step-000003")), step = said.find(" 5/6 ");
    ASSERT_TRUE(saved != said.npos && step != said.npos) << said;
    EXPECT_LT(step, saved) << said;
    auto rest = Losses(Mesh(dp, tp) + From("c/step-000003"));
    ASSERT_EQ(rest.size(), 3u);
    for (const auto& [number, loss] : rest) EXPECT_EQ(loss, whole[number]) << number;
    std::filesystem::remove_all(folder_.Path("c"));
  }
}

TEST_F(Resume, IsBitIdenticalUnderEveryExecutorAndSchedule) {
  for (const char* executor : {"interpret", "eager"})
    ExpectTheSame(Mesh(2, 1) + Words{std::string("executor=") + executor}, executor);
  Words shown{"data.shuffle=false", "train.seed=9", "precision.params=bf16"};
  ExpectTheSame(Mesh(1, 2) + shown, "windows");
}

// What a rank throws while a checkpoint is written is known before that is there: the others wait for it.
TEST_F(Resume, AnErrorDoesNotWaitForASave) {
  absl::StatusOr<Config> config =
      Load(SaveTo("c") + Words{"checkpoint.every=1", "executor=interpret", "optimizer.lr=1e30"});
  ASSERT_TRUE(config.ok());
  absl::StatusOr<Dataset> data = Dataset::Load(*config);
  ASSERT_TRUE(data.ok());
  std::string saved = folder_.Path("c/step-000001");
  ::setenv("WEFT_FAULT", "create:slow:1", 1);
  RunRanks(1, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, MeshOf(*config));
    Trainer trainer(*config, *data, context, mesh);
    EXPECT_NE(test::ErrorOf([&] { trainer.Run().IgnoreError(); }), "");
    EXPECT_FALSE(std::filesystem::exists(saved)) << "the error came after the checkpoint";
  });
  ::unsetenv("WEFT_FAULT");
  EXPECT_TRUE(std::filesystem::exists(saved));
}

// What an optimizer keeps is its own: another one starts it at zero and says so, once for each; its own continues.
TEST_F(Resume, AnotherOptimizerStartsAnew) {
  auto plain = Losses(Mesh(2, 1) + SaveTo("c") + Words{"checkpoint.every=2"});
  for (const char* name : {"sgd", "lion", "muon"}) {
    Words words = Mesh(1, 2) + Words{std::string("optimizer.name=") + name, "optimizer.momentum=0.9"};
    testing::internal::CaptureStderr();
    auto rest = Losses(words + From("c/step-000002") + SaveTo(name) + Words{"checkpoint.every=4"});
    std::string said = testing::internal::GetCapturedStderr(), note = std::string(" has nothing of ") + name + " for ";
    EXPECT_NE(said.find(note), said.npos) << said;
    EXPECT_EQ(said.find("nothing of adamw"), said.npos) << said;
    ASSERT_EQ(rest.size(), 4u);
    EXPECT_NEAR(rest[3].first, plain[3].first, 1e-5 * plain[3].first);  // the parameters are those that were saved
    EXPECT_NE(rest[6], plain[6]);
    testing::internal::CaptureStderr();
    auto again = Losses(words + From(std::string(name) + "/step-000004"));
    said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find(" has nothing of "), said.npos) << said;
    EXPECT_EQ(again[6], rest[6]) << name;
  }
}

// With other groups a parameter's moments continue if its rule is the same; those of another rule start at zero, and a
// note says for how many. With lr_scale 0 parameters are after a step what was saved.
TEST_F(Resume, OtherGroupsKeepWhatIsOfTheSameRule) {
  auto groups = [](const std::string& list) { return Words{"optimizer.groups=[" + list + "]"}; };
  Words lions = groups("{match: '*.attn.*', optimizer: lion}");
  auto first = Losses(Mesh(2, 1) + lions + SaveTo("c") + Words{"checkpoint.every=2"});
  auto saved = TensorsOf(folder_.Path("c/step-000002"));
  EXPECT_EQ(saved.count("adamw.m.blocks.0.mlp.up.weight") + saved.count("lion.m.blocks.0.attn.q.weight"), 2u);
  EXPECT_EQ(saved.count("adamw.m.blocks.0.attn.q.weight") + saved.count("lion.m.blocks.0.mlp.up.weight"), 0u);
  // The same groups: nothing starts at zero, and the losses are those of the run in one go.
  testing::internal::CaptureStderr();
  auto rest = Losses(Mesh(2, 1) + lions + From("c/step-000002"));
  EXPECT_EQ(testing::internal::GetCapturedStderr().find(" has nothing of "), std::string::npos);
  for (const auto& [step, loss] : rest) EXPECT_EQ(loss, first[step]) << step;
  // Only q keeps lion: k, v and proj of two layers start AdamW's moments, and lr_scale is no part of the rule.
  testing::internal::CaptureStderr();
  Words fewer = groups("{match: '*.attn.q.*', optimizer: lion, lr_scale: 0}, {match: embed.weight, optimizer: sgd}");
  auto other = Losses(Mesh(1, 2) + fewer + Words{"optimizer.momentum=0.9", "train.steps=3"} + From("c/step-000002") +
                      SaveTo("d") + Words{"checkpoint.every=1"});
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(" has nothing of adamw for 6 parameters"), said.npos) << said;
  EXPECT_NE(said.find(" has nothing of sgd for 1 parameters"), said.npos) << said;
  EXPECT_EQ(said.find(" has nothing of lion"), said.npos) << said;
  EXPECT_NEAR(other[3].first, first[3].first, 1e-5 * first[3].first);
  auto after = TensorsOf(folder_.Path("d/step-000003"));
  for (const char* path : {"blocks.0.attn.q.weight", "blocks.1.attn.q.weight"}) {
    EXPECT_EQ(after.at(path), saved.at(path)) << path;
    EXPECT_NE(after.at(std::string("lion.m.") + path), saved.at(std::string("lion.m.") + path)) << path;
  }
  EXPECT_EQ(after.count("sgd.momentum.embed.weight"), 1u);
  EXPECT_EQ(after.count("lion.m.blocks.0.attn.k.weight"), 0u);
  // The config that is saved with it has the groups.
  absl::StatusOr<Config> written = LoadConfig(folder_.Path("d/step-000003/config.yaml"), {});
  ASSERT_TRUE(written.ok()) << written.status();
  ASSERT_EQ(written->optimizer.groups.size(), 2u);
  EXPECT_EQ(written->optimizer.groups[0].lr_scale, 0);
  EXPECT_EQ(written->optimizer.groups[1].optimizer, "sgd");
}

// Each save has its event, after the step whose state it is: what resuming programs look for.
TEST_F(Resume, EverySaveIsLogged) {
  ASSERT_TRUE(Train(Mesh(2, 1) + SaveTo("c") + Words{"checkpoint.every=2"}).ok());
  std::vector<int64_t> saved;
  int64_t step = 0;
  for (const nlohmann::json& event : Events()) {
    if (event["event"] == "step") step = event["step"];
    if (event["event"] != "save") continue;
    saved.push_back(event["step"]);
    EXPECT_LE(saved.back(), step);
    EXPECT_EQ(event["folder"], folder_.Path(fmt::format("c/step-{:06}", saved.back())));
    EXPECT_GT(event["seconds"], 0);
  }
  EXPECT_EQ(saved, (std::vector<int64_t>{2, 4, 6}));
}

// The gate may close between steps and inside an evaluation: what was done is saved, and what was due follows. A run
// that is stopped after every so many pieces logs the steps and evaluations of one that never was, each once.
TEST_F(Resume, LogsWhatARunThatWasNeverStoppedLogs) {
  Words words = Mesh(2, 1) + Words{"data.val=0.5", "train.eval_every=3", "train.eval_batches=2", "log.every=1"};
  ASSERT_TRUE(Train(words).ok());
  std::vector<std::string> whole = StepsAndEvals();
  ASSERT_EQ(whole.size(), 6u + 2u);
  for (const char* every : {"checkpoint.every=0", "checkpoint.every=1"})
    for (int pieces = 2; pieces <= 10; pieces++) {  // all ten: six steps and twice two batches
      std::filesystem::remove(log_);
      int runs = 0;
      for (; runs < 9 && (runs == 0 || LastEvent() != "end"); runs++)
        ASSERT_TRUE(Train(words + SaveTo("c") + Words{every, "checkpoint.resume=auto"}, pieces).ok());
      EXPECT_EQ(StepsAndEvals(), whole) << pieces << " pieces, " << every;
      std::string log = ReadFile(log_);
      EXPECT_TRUE(Train(words + SaveTo("c") + Words{"checkpoint.resume=auto"}).ok());
      EXPECT_EQ(ReadFile(log_), log) << "expected nothing to be left to do";
      std::filesystem::remove_all(folder_.Path("c"));
    }
}

// An evaluation that was cut short is worth nothing: no record says otherwise, and its checkpoint waits for it.
TEST_F(Resume, AnEvaluationThatWasCutShortIsLeftToTheNextRun) {
  Words words{"data.val=0.5", "train.eval_every=3", "train.eval_batches=2", "train.steps=3"};
  for (int pieces : {3, 4}) {
    ASSERT_TRUE(Train(words + SaveTo("c"), pieces).ok());
    EXPECT_EQ(StepsIn(folder_.Path("c")), std::vector<int64_t>{3});
    EXPECT_EQ(StepsAndEvals().size(), 3u);
    EXPECT_EQ(LastEvent(), "stop");
    for (const char* val : {"data.val=0", "train.steps=2"}) {  // nothing to evaluate, or with
      std::string log = ReadFile(log_);
      EXPECT_TRUE(Train(words + SaveTo("c") + Words{val, "checkpoint.resume=auto"}).ok());
      EXPECT_EQ(ReadFile(log_), log) << val;
    }
    std::filesystem::remove_all(folder_.Path("c"));
  }
}

// Every mesh reads what every other one wrote; f32, losses within 2e-6.
TEST_F(Resume, AnyMeshLoadsAnyCheckpoint) {
  const std::pair<int, int> meshes[] = {{1, 1}, {2, 2}, {4, 1}, {1, 4}, {3, 1}, {1, 3}, {2, 3}};
  int cases = 0;
  for (const char* fsdp : {"none", "gradients", "full"})
    for (auto [dp, tp] : meshes) {
      if (cases++ % test::Share() != 0) continue;
      Words sharding{std::string("parallel.fsdp=") + fsdp};
      auto whole = Losses(Mesh(dp, tp) + sharding + SaveTo("c") + Words{"checkpoint.every=3"});
      auto saved = TensorsOf(folder_.Path("c/step-000003"));
      for (auto [dp2, tp2] : meshes) {
        auto rest = Losses(Mesh(dp2, tp2) + Words{"parallel.fsdp=full"} + From("c/step-000003"));
        for (int step = 4; step <= 6; step++)
          EXPECT_NEAR(rest[step].first, whole[step].first, 2e-6 * whole[step].first)
              << fsdp << " " << dp << "x" << tp << " to " << dp2 << "x" << tp2 << " step " << step;
      }
      std::filesystem::remove_all(folder_.Path("c"));
    }
}

// Copies of what dp ranks shard: saved once, and read on meshes with and without them. The log names the axis.
TEST_F(Resume, CopiesAreSavedOnceAndLoadAnywhere) {
  Words copies{"mesh.replicate=2", "mesh.dp=2", "parallel.fsdp=full", "train.micro_batch=1"};
  auto one = Losses(SaveTo("one") + Words{"checkpoint.every=3"});
  auto whole = Losses(copies + SaveTo("c") + Words{"checkpoint.every=3"});
  nlohmann::json start = Events().front();
  EXPECT_EQ(start["replicate"], 2);
  EXPECT_EQ(start["dp"], 2);
  EXPECT_EQ(start["tp"], 1);
  for (int step = 1; step <= 6; step++) EXPECT_NEAR(whole[step].first, one[step].first, 2e-6 * one[step].first) << step;
  auto boxes = [&](const std::string& folder) { return std::filesystem::directory_iterator(folder_.Path(folder)); };
  auto shards = std::count_if(begin(boxes("c/step-000003")), end(boxes("c/step-000003")),
                              [](const auto& file) { return file.path().extension() == ".safetensors"; });
  EXPECT_EQ(shards, 2) << "expected one file per shard, not per copy";
  auto same = Losses(copies + From("c/step-000003")), from_one = Losses(copies + From("one/step-000003"));
  auto rest = Losses(Mesh(1, 3) + From("c/step-000003"));
  for (int step = 4; step <= 6; step++) {
    EXPECT_EQ(same[step], whole[step]) << step;
    EXPECT_NEAR(from_one[step].first, one[step].first, 2e-6 * one[step].first) << step;
    EXPECT_NEAR(rest[step].first, one[step].first, 2e-6 * one[step].first) << step;
  }
}

// Not one bit of parameters, moments and counters changes between meshes, whatever the shardings.
TEST_F(Resume, LoadsTheSameBitsOnEveryMesh) {
  ASSERT_TRUE(Train(Mesh(2, 2) + SaveTo("c") + Words{"parallel.fsdp=gradients"}).ok());
  std::string folder = folder_.Path("c/step-000006");
  auto saved = TensorsOf(folder);
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder);
  ASSERT_TRUE(checkpoint.ok());
  for (const char* fsdp : {"none", "gradients", "full"})
    for (auto [dp, tp] : {std::pair{1, 1}, {4, 1}, {1, 4}, {3, 2}}) {
      absl::StatusOr<Config> config = Load(Mesh(dp, tp) + Words{std::string("parallel.fsdp=") + fsdp});
      ASSERT_TRUE(config.ok());
      TrainingStep step(ModelOf(*config), StepOptionsOf(*config));
      const MeshShape& mesh = step.options().model.mesh;
      std::map<std::string, std::string> assembled;
      for (int rank = 0; rank < dp * tp; rank++) {
        State state(mesh, mesh.CoordsOf(rank));
        step.AddEntries(state);
        ASSERT_TRUE(checkpoint->Load(state).ok());
        for (const auto& [name, e] : state.entries()) {
          if (!e.saved) continue;
          std::string& bytes = assembled[name];
          bytes.resize(size_t(NumElements(e.global)) * SizeOf(e.local.dtype()));
          Box whole{Shape(e.global.size(), 0), e.global};
          if (auto held = HeldBox(e.global, e.sharding, state.mesh(), state.coords()))
            CopyMeeting({*held, e.local.dtype(), e.local.as<std::byte>(), RowMajor(e.local.shape())},
                        {whole, e.local.dtype(), reinterpret_cast<std::byte*>(bytes.data()), RowMajor(e.global)});
        }
      }
      EXPECT_EQ(assembled, saved) << fsdp << " " << dp << "x" << tp;
    }
}

// All keys but those of model may differ.
TEST_F(Resume, TakesOtherKeysButNoOtherModel) {
  ASSERT_TRUE(Train(SaveTo("c") + Words{"train.steps=3"}).ok());
  for (const Words& words : {Words{"train.global_batch=7"},
                             {"precision.compute=bf16"},
                             {"precision.compute=f16"},
                             {"precision.params=bf16"},
                             {"optimizer.lr=1e-5"},
                             {"train.seed=5"},
                             {"precision.compute=f64"}})
    EXPECT_EQ(Losses(words + From("c/step-000003")).size(), 3u) << words[0];
  for (auto [word, text] : {std::pair{"model.layers=1", "model.layers: expected 2, as "},
                            {"model.dim=12", "model.dim: expected 6, as "},
                            {"model.dropout=0.2", "model.dropout: expected 0.1, as "}}) {
    absl::Status status = Train(Words{word} + From("c/step-000003"));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(std::string("command line: ") + text), std::string::npos) << status;
  }
}

// Consecutive windows continue where they were, whatever the batch is now.
TEST_F(Resume, GoesOnInTheDataWhereItWas) {
  Words still{"data.shuffle=false", "optimizer.lr=1e-30", "model.dropout=0", "precision.compute=f64"};
  ASSERT_TRUE(Train(still + SaveTo("c") + Words{"train.global_batch=4", "train.steps=2"}).ok());
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder_.Path("c/step-000002"));
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->manifest().sequences, 8);
  auto of_two = Losses(still + From("c/step-000002") + Words{"train.global_batch=2", "train.steps=4"});
  auto of_one = Losses(still + From("c/step-000002") + Words{"train.global_batch=1", "train.steps=6"});
  EXPECT_NEAR(of_two[3].first, (of_one[3].first + of_one[4].first) / 2, 1e-12);
  EXPECT_NEAR(of_two[4].first, (of_one[5].first + of_one[6].first) / 2, 1e-12);
}

// A mixture continues in the middle of each source: the losses and every bit of the state are those of a run in one go.
TEST_F(Resume, GoesOnInEverySourceOfAMixture) {
  std::string list;
  for (int s = 0; s < 3; s++)
    list += fmt::format(
        "{}{{path: {}, weight: {}}}", s ? ", " : "",
        folder_.Write(fmt::format("source{}", s), std::string(size_t(90 + 40 * s), char('a' + s)) + "xyz"), s + 1);
  for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}})
    for (const char* shuffle : {"data.shuffle=true", "data.shuffle=false"})
      ExpectTheSame(Mesh(dp, tp) + Words{"data.train=[" + list + "]", shuffle},
                    fmt::format("{}x{} {}", dp, tp, shuffle));
  ASSERT_TRUE(Train(SaveTo("m") + Words{"data.train=[" + list + "]", "train.steps=3"}).ok());
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder_.Path("m/step-000003"));
  ASSERT_TRUE(checkpoint.ok());
  const std::vector<int64_t>& of_source = checkpoint->manifest().of_source;
  EXPECT_EQ(of_source.size(), 3u);
  EXPECT_EQ(std::accumulate(of_source.begin(), of_source.end(), int64_t{0}), checkpoint->manifest().sequences);
}

// A checkpoint without sources, such as an old one, has no positions of theirs: they start from their beginning.
TEST_F(Resume, ACheckpointWithoutSourcesStartsThem) {
  ASSERT_TRUE(Train(SaveTo("c") + Words{"train.steps=3"}).ok());
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder_.Path("c/step-000003"));
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_TRUE(checkpoint->manifest().of_source.empty());
  std::string file = folder_.Write("source", std::string(200, 'a'));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(Train(From("c/step-000003") + Words{"data.train=[{path: " + file + "}, {path: " + file + "}]"}).ok());
  std::string out = testing::internal::GetCapturedStderr();
  EXPECT_NE(out.find("data.train: " + folder_.Path("c/step-000003") +
                     " has the positions of 0 sources, and there are 2 now: each starts from its beginning"),
            out.npos)
      << out;
}

TEST_F(Resume, AtOrPastTheLastStepDoesNothing) {
  ASSERT_TRUE(Train(SaveTo("c")).ok());
  for (const char* steps : {"train.steps=6", "train.steps=5"}) {
    std::filesystem::remove(log_);
    EXPECT_TRUE(Train(SaveTo("c") + Words{steps, "checkpoint.resume=auto"}).ok());
    EXPECT_FALSE(std::filesystem::exists(log_));
  }
}

// A run that goes back to an older checkpoint leaves the later ones, which have the higher steps. The checkpoint that
// is taken then is reported, at its start, where it stops and where the next one looks for the newest.
TEST_F(Resume, SaysWhatAnOlderRunHasLeft) {
  ASSERT_TRUE(Train(SaveTo("c") + Words{"checkpoint.every=2"}).ok());
  std::string c = folder_.Path("c"), third = StepFolder(c, 3), sixth = StepFolder(c, 6), out, err;
  auto train = [&](const Words& words, std::optional<int64_t> pieces) {
    testing::internal::CaptureStdout(), testing::internal::CaptureStderr();
    EXPECT_TRUE(Train(Mesh(2, 1) + SaveTo("c") + words, pieces).ok());
    out = testing::internal::GetCapturedStdout(), err = testing::internal::GetCapturedStderr();
  };
  train(From("c/step-000002"), 1);
  EXPECT_TRUE(err.starts_with("note: " + c + " holds checkpoints of steps past 2, where this run starts, up to 6"))
      << err;
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  EXPECT_NE(out.find("\nstopped after step 3 by SIGTERM; continue with checkpoint.resume=" + third +
                     ", as auto would take " + sixth + "\n"),
            out.npos)
      << out;
  train({"checkpoint.resume=auto", "train.steps=9"}, 1);
  EXPECT_TRUE(err.starts_with("note: " + third + " was saved after " + sixth + ", which is taken")) << err;
  EXPECT_NE(out.find("; continue with checkpoint.resume=auto\n"), out.npos) << out;
  train({"checkpoint.resume=auto", "train.steps=9"}, 0);
  EXPECT_EQ(err, "") << "step 7 is the latest and the highest";
  EXPECT_NE(out.find("stopped after step 7 by SIGTERM; no step was done, so start it as before\n"), out.npos) << out;
}

// Other data, another tokenizer or another length changes what the steps mean that follow: each such key is named, with
// both values, and no other key is.
TEST_F(Resume, NamesKeysOfDataAndScheduleThatChanged) {
  ASSERT_TRUE(Train(SaveTo("c") + Words{"train.steps=2", "schedule.warmup_steps=0"}).ok());
  std::string from = folder_.Path("c/step-000002");
  auto notes = [&](const Words& words) {
    testing::internal::CaptureStderr();
    absl::Status status = Train(From("c/step-000002") + Words{"train.steps=2", "schedule.warmup_steps=0"} + words);
    std::string out = testing::internal::GetCapturedStderr(), found;
    EXPECT_TRUE(status.ok()) << status;
    for (size_t at = out.find("note: "); at != out.npos; at = out.find("note: ", at + 1))
      found += out.substr(at, out.find('\n', at) - at + 1);
    return found;
  };
  EXPECT_EQ(notes({}), "");
  EXPECT_EQ(notes({"train.seed=7", "optimizer.lr=1e-5", "log.every=3", "checkpoint.keep=2"}), "");
  EXPECT_EQ(notes({"train.steps=3"}), "note: command line: train.steps: 3 here, 2 in " + from + "\n");
  EXPECT_EQ(notes({"data.shuffle=false"}), "note: command line: data.shuffle: false here, true in " + from + "\n");
  std::string two = notes({"train.steps=4", "schedule.name=linear"});
  EXPECT_NE(two.find("schedule.name: linear here, "), two.npos) << two;
  EXPECT_NE(two.find("train.steps: 4 here, 2 in "), two.npos) << two;
  EXPECT_EQ(std::count(two.begin(), two.end(), '\n'), 2) << two;
}

TEST_F(Resume, NamesWhatIsNotThere) {
  for (auto [word, text] : {std::pair{"checkpoint.resume=atuo", "did you mean \"auto\"?"},
                            {"checkpoint.resume=/absent", "\"/absent\", where there is nothing"}}) {
    absl::Status status = Train({word});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find("command line: checkpoint.resume: expected auto, never or the folder"),
              std::string::npos)
        << status;
    EXPECT_NE(status.message().find(text), std::string::npos) << status;
  }
  ASSERT_TRUE(Train(SaveTo("c")).ok());
  EXPECT_NE(Train(From("c")).message().find("c/step-000006\"?"), std::string::npos);
  EXPECT_EQ(Losses(SaveTo("new") + Words{"checkpoint.resume=auto"}).size(), 6u);
}

TEST_F(Resume, RefusesAnotherTokenizerOfItsKind) {
  for (const char* name : {"abc", "xyz"}) {
    std::ofstream file(folder_.Path(name));
    for (int i = 0; i < 200; i++) file << name;
  }
  auto train = [&](const char* text, const char* steps) {
    return Train(SaveTo("c") + Words{"data.train=" + folder_.Path(text), "data.val=0", "data.tokenizer=chars", steps,
                                     "checkpoint.resume=auto"});
  };
  EXPECT_TRUE(train("abc", "train.steps=2").ok());
  EXPECT_TRUE(train("abc", "train.steps=3").ok());
  absl::Status status = train("xyz", "train.steps=4");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("data.tokenizer: expected the tokenizer of " + folder_.Path("c/step-000003") +
                                  ", which lies there as tokenizer.chars, got another one"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace weft
