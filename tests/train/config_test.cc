// The config reader: good configs round-trip. Bad ones are in tables: tests/launcher/bad_inputs.
#include "weft/train/config/config.h"

#include <gtest/gtest.h>

#include <fstream>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "train/temp_folder.h"
#include "weft/core/host/suggest.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/config/config_value.h"
#include "weft/train/config/model_of.h"
#include "weft/train/config/optimizer_groups.h"
#include "weft/train/config/pattern_check.h"
#include "weft/train/config/plan_value.h"
#include "weft/train/config/unused_keys.h"
#include "weft/train/preflight/run_rules.h"

namespace weft {
namespace {

using testing_::TempFolder;

// Three lines, so that what a case appends starts on line 4.
const std::string kBase =
    "model: {family: gpt2, layers: 2, heads: 4, dim: 64, context: 32}\n"
    "data: {train: README.md}\n"
    "train: {steps: 10, global_batch: 4}\n";

using Words = std::vector<std::string>;

Config Good(const std::string& yaml = kBase, const Words& overrides = {}) {
  absl::StatusOr<Config> config = ParseConfig(yaml, "a.yaml", overrides);
  EXPECT_TRUE(config.ok()) << std::string(config.status().message());
  return config.ok() ? *config : Config();
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(Config, ReportsEveryFaultAtOnce) {
  absl::StatusOr<Config> config = ParseConfig(kBase + "mesh: {pd: 2}\ndevice: gpu\n", "a.yaml", {"train.stesp=3"});
  ASSERT_FALSE(config.ok());
  std::string message = Message(config.status());
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 2) << message;
}

// Noted and not refused: an argument that switches something off need not take back what the file says of it.
TEST(Config, KeysWithoutEffectAreNamed) {
  auto said = [](const std::string& yaml, const Words& words) {
    std::string lines;
    for (const std::string& line : UnusedKeys(Good(kBase + yaml, words))) lines += line + "\n";
    return lines;
  };
  std::string cosine = "schedule: {name: cosine, min_lr: 1e-4}\n";
  EXPECT_EQ(said(cosine, {}), "");
  EXPECT_EQ(
      said("parallel:\n  plan:\n    rows:\n      - {module: embed, at: weight, tp: shard(0)}\n"
           "      - {module: head, at: weight, tp: shard(0)}\n",
           {}),
      "a.yaml:8:9: parallel.plan: the row of \"head\" has no effect, as no module that it matches has a weight; give "
      "another module or point, or remove it\n");
  EXPECT_EQ(said(cosine, {"schedule.name=constant"}),
            "a.yaml:4:26: schedule.min_lr: has no effect, as schedule.name is constant; give another schedule, or "
            "remove it\n");
  EXPECT_EQ(
      said("", {"loss_scale.initial=8", "loss_scale.min=1"}),  // 1 is what it is without a word
      "command line: loss_scale.initial: has no effect, as precision.compute is not f16; give f16, the only type with "
      "a loss scale, or remove it\n");
  EXPECT_EQ(said("", {"loss_scale.initial=8", "precision.compute=f16"}), "");
  EXPECT_EQ(
      said("", {"precision.wire=bf16"}),
      "command line: precision.wire: has no effect, as the mesh has one rank, which sends no gradients; give more "
      "ranks, or remove it\n");
  for (const char* word : {"mesh.dp=2", "mesh.tp=2", "mesh.replicate=2", "mesh.dp=-1"})
    EXPECT_EQ(said("", {"precision.wire=bf16", word}), "") << word;
  for (const char* word : {"train.eval_every=2", "checkpoint.keep=1", "model.rope_theta=5", "model.rope_factor=8"})
    EXPECT_NE(said("", {word}), "") << word;
  EXPECT_EQ(said("", {"train.eval_every=2", "data.val=0.1", "model.rope_theta=5", "model.family=llama"}), "");
  EXPECT_NE(said("", {"data.synthetic=true"}), "");
  for (const char* word : {"model.rope_low=2", "model.rope_high=9", "model.rope_context=64"}) {
    EXPECT_NE(said("", {"model.family=llama", word}).find("has no effect, as model.rope_factor is 1"),
              std::string::npos);
    EXPECT_EQ(said("", {"model.family=llama", word, "model.rope_factor=8"}), "") << word;
  }
}

// A run with them is refused, and its error gives the reason that weft plan notes.
TEST(Config, KeysOfMemoryBetweenGpusAreRefusedWithoutThem) {
  for (const char* word : {"parallel.symmetric_memory=true", "parallel.gather=copy"})
    for (const auto& [other, why] : {std::pair("mesh.dp=1", "the mesh has one rank"),
                                     {"device=cpu", "device is cpu"},
                                     {"executor=interpret", "only executor compiled has"}}) {
      Config config = Good(kBase, {"mesh.dp=2", word, other});
      std::string error = Message(CheckUsed(config));
      EXPECT_NE(error.find(fmt::format("has no effect, as {}", why)), error.npos) << word << ' ' << other;
      EXPECT_EQ(UnusedKeys(config), Words{error});
    }
  EXPECT_TRUE(CheckUsed(Good(kBase, {"mesh.dp=2", "parallel.symmetric_memory=true", "parallel.gather=copy"})).ok());
  EXPECT_TRUE(CheckUsed(Good(kBase, {"loss_scale.initial=8", "parallel.gather=kernels", "device=cpu"})).ok());
}

TEST(Config, AWarmUpIsLoweredForShortRunsOfLongOnes) {
  std::string yaml = kBase + "schedule: {warmup_steps: 8}\n";
  Config config = Good(yaml, {"train.steps=5"});
  EXPECT_EQ(config.schedule.warmup_steps, 5);
  EXPECT_EQ(config.notes, Words{"a.yaml:4:12: schedule.warmup_steps: 8 is lowered to 5, as train.steps is"});
  EXPECT_EQ(Good(yaml, {"train.steps=8"}).notes, Words());
  std::string error = Message(ParseConfig(yaml, "a.yaml", {"train.steps=5", "schedule.warmup_steps=6"}).status());
  EXPECT_NE(error.find("expected at most train.steps = 5, got 6"), error.npos) << error;
}

// A merged config holds every key, and is nobody's mistake.
TEST(Config, MergedConfigsAreQuiet) {
  absl::StatusOr<Config> again = ParseConfig(ToYaml(Good()), "a.yaml", {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(UnusedKeys(*again), Words());
}

TEST(Config, AFileThatIsNoConfigIsAnsweredInBrief) {
  std::string yaml;
  for (int i = 0; i < 4000; i++) yaml += "k" + std::to_string(i) + ":\n";
  std::string message = Message(ParseConfig(yaml, "a.yaml", {}).status());
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << message;  // too many values
  message = Message(ParseConfig(yaml.substr(0, 5000), "a.yaml", {}).status());
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 19) << message;
}

// Every integer key, and what only products of keys reach: refused by name. A tensor of such a size would not fit into
// any memory, so the refusals show that none was made.
TEST(Config, RefusesAbsurdSizes) {
  std::vector<std::pair<std::string, Words>> cases = {
      {"model.dim: expected at most 1e+17 parameters, got", {"model.layers=10000", "model.dim=1048576"}},
      {"model.dim: expected at most 1e+17 parameters, got",
       {"model.ffn=16777216", "model.dim=1048576", "model.layers=9000", "model.family=llama"}},
      {"train.global_batch: expected tensors of at most 1e+17",
       {"train.global_batch=1000000000", "model.context=1000000"}},
      {"train.global_batch: expected tensors of at most 1e+17", {"model.context=1000000000"}},
      {"train.global_batch: expected tensors of at most 1e+17",
       {"model.vocab=2147483647", "train.global_batch=100000000"}},
      {"mesh: expected at most 65536 ranks, got dp=65536 x tp=2", {"mesh.dp=65536", "mesh.tp=2"}},
      {"dist.timeout_s: expected", {"dist.timeout_s=1e300"}}};
  int keys = 0;
  for (const Field& field : Schema()) {
    Config probe;
    if (!std::holds_alternative<int64_t*>(field.ref(probe))) continue;
    keys++;
    bool seed = field.key == std::string("train.seed");  // any 63 bits are one
    EXPECT_TRUE(seed || field.bounds.high <= 2147483647) << field.key;
    for (const char* value : {"-9223372036854775808", "-2", "9223372036854775807", "99999999999999999999", "1e300"}) {
      if (seed && value == std::string("9223372036854775807")) continue;
      cases.push_back({std::string(field.key) + ": expected", {std::string(field.key) + "=" + value}});
    }
  }
  EXPECT_GE(keys, 20);
  for (const auto& [text, overrides] : cases) {
    absl::Status status = ParseConfig(kBase, "a.yaml", overrides).status();
    EXPECT_NE(Message(status).find(text), std::string::npos) << "expected " << text << "\ngot      " << status;
  }
}

// What the largest published runs use is far inside the limits.
TEST(Config, TakesLargeModels) {
  Good(kBase, {"model.family=llama", "model.layers=126", "model.heads=128", "model.kv_heads=8", "model.dim=16384",
               "model.ffn=53248", "model.vocab=128256", "model.context=131072", "train.global_batch=2048",
               "train.steps=1000000", "mesh.dp=2048", "mesh.tp=8"});
}

// Whatever a slip of the finger makes of a file, the answer is a config or a message with a place, never a crash.
TEST(Config, AnyDamagedByteIsAnswered) {
  std::string good = kBase + "optimizer:\n  betas: [0.9, \"0.95\"]\n  lr: 1e-3 # it's\nlog: {jsonl: 'a b'}\n";
  std::string damage("'\"[]{}:#-,?&*!|>%@`\\ \n\t\r0a\xff\x00", 28);
  for (size_t at = 0; at < good.size(); at++) {
    for (char ch : damage) {
      std::string bad = good;
      bad[at] = ch;
      absl::StatusOr<Config> config = ParseConfig(bad, "a.yaml", {});
      EXPECT_TRUE(config.ok() || Message(config.status()).starts_with("a.yaml:")) << bad << Message(config.status());
    }
    ParseConfig(good.substr(0, at), "a.yaml", {}).IgnoreError();
  }
}

TEST(Config, MissingFilesAndFoldersAreNamed) {
  EXPECT_NE(Message(LoadConfig("no/such.yaml", {}).status()).find("no/such.yaml: no such file"), std::string::npos);
  EXPECT_NE(Message(LoadConfig("/", {}).status()).find("/: expected a YAML config, got a folder; give a file in it"),
            std::string::npos);
}

TEST(Config, DefaultsFollowTheContract) {
  Config c = Good();
  EXPECT_EQ(c.model.kv_heads, 4);
  EXPECT_EQ(c.model.ffn, 256);
  EXPECT_EQ(c.model.vocab, 0);
  EXPECT_TRUE(c.model.tie_embeddings);
  EXPECT_EQ(c.mesh["dp"], 1);
  EXPECT_EQ(c.train.eval_batches, TrainConfig::kAllBatches);
  EXPECT_EQ(c.checkpoint.every, 0);
  EXPECT_EQ(c.checkpoint.resume, "never");
  EXPECT_EQ(c.dist.timeout_s, 300);
  EXPECT_EQ(c.optimizer.betas[1], 0.95);
  EXPECT_TRUE(c.data.val.empty());
  EXPECT_EQ(Good(kBase, {"precision.compute=f64"}).precision.reduce, DType::kF64);
  EXPECT_EQ(Good(kBase, {"precision.compute=bf16"}).precision.params, DType::kF32);
  Config llama = Good(kBase, {"model.family=llama"});
  EXPECT_EQ(llama.model.ffn, 192);
  EXPECT_FALSE(llama.model.tie_embeddings);
}

TEST(Config, NumericsReachTheContext) {
  Numerics usual = NumericsOf(Good(), DeviceKind::kCpu);
  EXPECT_TRUE(usual.deterministic);
  EXPECT_FALSE(usual.tf32);
  EXPECT_EQ(usual.attention, "");
  std::string section = "kernels: {deterministic: false, tf32: true, attention: flash}\n";
  Numerics fast = NumericsOf(Good(kBase + section), DeviceKind::kCuda);
  EXPECT_FALSE(fast.deterministic);
  EXPECT_TRUE(fast.tf32);
  EXPECT_EQ(fast.attention, "flash");
  EXPECT_EQ(NumericsOf(Good(kBase + section, {"kernels.attention=auto"}), DeviceKind::kCuda).attention, "");
}

TEST(Config, OverridesBeatTheFileAndTheLastWins) {
  Config c = Good(kBase + "mesh: {dp: 2}\n",
                  {"mesh.dp=3", "mesh={tp: 2}", "mesh.dp=4", "data.train=[a b.txt, 'c:d']", "data.val=0.1",
                   "log.jsonl=run: 1.jsonl", "train.eval_batches=all", "threads=auto", "optimizer.betas=[0.8, 0.9]"});
  EXPECT_EQ(c.mesh["dp"], 4);
  EXPECT_EQ(c.mesh["tp"], 2);
  EXPECT_EQ(c.data.train, (PathList{"a b.txt", "c:d"}));
  EXPECT_EQ(Good(kBase, {"data.train=[{path: a}]", "data.train=b"}).data.mixture.size(), 0u);
  EXPECT_EQ(Good(kBase, {"data.train=b", "data.train=[{path: [a, c]}, {path: d}]"}).data.train,
            (PathList{"a", "c", "d"}));
  EXPECT_EQ(c.data.val.fraction, 0.1);
  EXPECT_EQ(c.log.jsonl, "run: 1.jsonl");
  EXPECT_EQ(c.optimizer.betas[0], 0.8);
  EXPECT_EQ(Good(kBase, {"data.val='0.1'"}).data.val.paths, PathList{"0.1"});
  EXPECT_EQ(Good(kBase, {"data.val=[a, '0.1']"}).data.val.paths, (PathList{"a", "0.1"}));
  EXPECT_EQ(Good(kBase, {"data.val=3.txt"}).data.val, (ValSource{{"3.txt"}, 0}));
  EXPECT_EQ(Good(kBase, {"data.val=a", "data.val=0.2"}).data.val, (ValSource{{}, 0.2}));
  EXPECT_EQ(Good(kBase + "# it's fine\nlog: {jsonl: it's}\n").log.jsonl, "it's");
  EXPECT_EQ(Good("\xEF\xBB\xBF" + kBase).train.steps, 10);
}

TEST(Config, PresetsGiveSizesThatKeysOverride) {
  std::string rest = "\ndata: {train: a}\ntrain: {steps: 1, global_batch: 1}\n";
  Config gpt2 = Good("model: {preset: gpt2_124m}" + rest);
  EXPECT_EQ(gpt2.model.dim, 768);
  EXPECT_EQ(gpt2.model.vocab, 50257);
  Config llama = Good("model: {preset: llama3_8b, layers: 2}" + rest);
  EXPECT_EQ(llama.model.layers, 2);
  EXPECT_EQ(llama.model.kv_heads, 8);
  EXPECT_EQ(llama.model.ffn, 14336);
  Config narrow = Good("model: {preset: gpt2_124m, dim: 96}" + rest);
  EXPECT_EQ(narrow.model.ffn, 384);
}

TEST(Config, EveryPresetOfTheSchemaExists) {
  for (const std::string& name : FindField("model.preset")->choices) {
    Config c = Good("model: {preset: " + name + "}\ndata: {train: a}\ntrain: {steps: 1, global_batch: 1}\n");
    EXPECT_GT(c.model.layers, 0) << name;
  }
}

const MeshShape kTwo{{"dp", "tp"}, {2, 2}};

std::string Described(const OptimizerRule* rule, const OptimizerOptions& o) {
  return fmt::format("{} {} {} {} {} {} {}", rule ? rule->name : "-", o.beta1, o.beta2, o.eps, o.momentum, o.nesterov,
                     o.weight_decay);
}
std::string Described(const Optimizer& optimizer) {
  std::string text = Described(optimizer.rule, optimizer.options);
  for (const ParameterGroup& g : optimizer.groups)
    text +=
        fmt::format("; {} {} {} {}", g.match, g.lr_scale, g.weight_decay.value_or(-1), Described(g.rule, g.options));
  return text;
}
std::string Described(const ShardingPlan& plan) {
  std::string text;
  for (const ShardingPlan::Row& row : plan.rows()) {
    text += fmt::format("{:?} {}", row.module, row.point);
    for (const auto& [axis, p] : row.placements) text += fmt::format(" {}: {}", axis, ToString(p));
    text += "; ";
  }
  return text;
}

// A group with another optimizer has what the config says, and that optimizer's own defaults for the rest.
TEST(Config, GroupsHaveTheirOptimizersDefaults) {
  std::string groups =
      "optimizer.groups=[{match: '*', optimizer: lion}, {match: 'embed.*', optimizer: adamw, lr_scale: 2}]";
  Optimizer usual = OptimizerOf(Good(kBase, {groups}));
  ASSERT_EQ(usual.groups.size(), 2u);
  EXPECT_EQ(Described(usual.groups[0].rule, usual.groups[0].options),
            Described(FindOptimizer("lion"), FindOptimizer("lion")->defaults));
  EXPECT_EQ(usual.groups[1].rule, nullptr);  // the run's own
  EXPECT_EQ(usual.groups[1].lr_scale, 2);
  Optimizer given = OptimizerOf(Good(kBase, {groups, "optimizer.betas=[0.5, 0.6]", "optimizer.weight_decay=0.25"}));
  EXPECT_EQ(given.groups[0].options.beta2, 0.6);
  EXPECT_EQ(given.groups[0].options.weight_decay, 0.25);
  EXPECT_EQ(Good(kBase, {groups, "optimizer.groups=[]"}).optimizer.groups.size(), 0u);
}

// A name, rows in the config and rows in a file: what they say is one plan, and makes one plan of communication.
TEST(Config, APlanIsANameOrRowsOrAFile) {
  TempFolder folder;
  std::string rows =
      "rows:\n  - {module: '*.mlp.*', at: weight, tp: replicate}\n  - {module: '*.mlp.*', at: bias, tp: replicate}\n";
  auto hash = [](const Config& config) { return TrainingStep(ModelOf(config), StepOptionsOf(config)).CommHash(); };
  Words mesh{"mesh.dp=2", "mesh.tp=2", "model.vocab=256", "train.micro_batch=2"};
  Words file = mesh, named = mesh;
  file.push_back("parallel.plan=" + folder.Write("plan.yaml", "base: megatron\n" + rows));
  named.push_back("parallel.plan=megatron");
  std::string inside;
  for (char c : "  " + rows) inside += c == '\n' ? std::string("\n  ") : std::string(1, c);
  Config from_file = Good(kBase, file), inline_rows = Good(kBase + "parallel:\n plan:\n" + inside + "\n", mesh),
         plain = Good(kBase, mesh);
  EXPECT_EQ(Described(PlanOf(from_file, kTwo)), Described(PlanOf(inline_rows, kTwo)));
  EXPECT_EQ(hash(from_file), hash(inline_rows));
  EXPECT_NE(hash(from_file), hash(plain));
  EXPECT_EQ(hash(Good(kBase, named)), hash(plain));
  EXPECT_EQ(hash(Good(ToYaml(from_file))), hash(from_file));  // it holds the rows, not the file's name
  EXPECT_EQ(plain.parallel.plan.base, "megatron");
  EXPECT_EQ(Good(kBase, {"model.family=bert"}).parallel.plan.base, "bert");
}

// A row may name any parameter of the model, whatever it is called. GPT-2's positions belong to no layer.
TEST(Config, ARowPlacesAnyParameter) {
  for (const char* module : {"''", "'*'"}) {
    Config config =
        Good(kBase, {fmt::format("parallel.plan={{rows: [{{module: {}, at: positions, tp: shard(1)}}]}}", module)});
    EXPECT_EQ(PlanOf(config, kTwo).ParameterPlacement("positions", 2, kTwo), (Sharding{Replicate(), Shard(1)}));
    EXPECT_EQ(RowsWithoutEffect(config), std::vector<std::string>());
    EXPECT_EQ(PrintPlan(Good(ToYaml(config)).parallel.plan), PrintPlan(config.parallel.plan));
  }
  Config other = Good(kBase, {"parallel.plan={rows: [{module: embed, at: positions, tp: shard(1)}]}"});
  ASSERT_EQ(RowsWithoutEffect(other).size(), 1u);
  EXPECT_NE(RowsWithoutEffect(other)[0].find("no module that it matches has a positions"), std::string::npos);
}

// Whether it is given in the file or by a word, and as a switch as well as without.
TEST(Config, AFamilysOwnKeyMakesAnotherModel) {
  auto dense = [](const Config& config) {
    TransformerConfig sizes = ModelOf(config);
    sizes.vocab = 9;
    std::unique_ptr<Model> model = MakeModel(sizes);
    return std::ranges::count_if(model->Parameters(), [](const Parameter* p) {
      return p->path().starts_with("dense.") || p->path().starts_with("last_norm.");
    });
  };
  std::string bert = kBase, without = kBase;
  bert.replace(bert.find("gpt2"), 4, "bert");
  without.replace(without.find("gpt2"), 4, "bert, transform: false");
  EXPECT_EQ(dense(Good(bert)), 4) << "weights and biases of the dense layer and its norm";
  EXPECT_EQ(dense(Good(bert, {"model.transform=true"})), 4);
  EXPECT_EQ(dense(Good(bert, {"model.transform=false"})), 0);
  EXPECT_EQ(dense(Good(without)), 0);
  EXPECT_EQ(dense(Good(without, {"model.transform=true"})), 4) << "words come after the file";
  EXPECT_EQ(dense(Good(ToYaml(Good(without)))), 0);
  EXPECT_NE(ToYaml(Good(without)).find("transform: false"), std::string::npos);
  EXPECT_EQ(Message(ParseConfig(bert, "a.yaml", {"model.transform=0"}).status()),
            "command line: model.transform: expected one of false, true, got \"0\"; did you mean \"false\"?");
  EXPECT_EQ(UnusedKeys(Good(kBase, {"model.transform=false"})).size(), 1u) << "gpt2 has none";
}

// Where a row of a file is wrong the file is named, also when only the model shows it.
TEST(Config, FaultsOfAPlansFileNameIt) {
  TempFolder folder;
  auto fault = [&](const std::string& text) {
    std::string path = folder.Write("plan.yaml", text);
    std::string message = Message(ParseConfig(kBase, "a.yaml", {"parallel.plan=" + path}).status());
    EXPECT_TRUE(message.starts_with(path)) << message;
    return message.substr(std::min(path.size(), message.size()));
  };
  EXPECT_EQ(fault("rows:\n- {module: '*.mlpp', at: weight, tp: shard(0)}\n").substr(0, 62),
            ":2:3: parallel.plan: \"*.mlpp\" matches no module of the model, ");
  EXPECT_EQ(fault("rows:\n- {module: '*.up', at: weight, tp: shard(2)}\n"),
            ":2:3: parallel.plan: shard(2) of the weight of blocks.0.mlp.up: expected a dim below 2, as many as that "
            "tensor has");
  std::string plans;
  for (const NamedPlan* plan : NamedPlans()) plans += (plans.empty() ? "" : ", ") + std::string(plan->name);
  EXPECT_EQ(fault("base: [a]\n"), ":1:7: parallel.plan: expected base as one of " + plans + ", got a list");
  EXPECT_EQ(fault("[a]\n").substr(0, 48), ":1:1: parallel.plan: expected a plan {base, rows");
}

// ToYaml of any good config reads back as the same values, key by key.
TEST(Config, YamlRoundTrips) {
  std::vector<Words> sweeps = {
      {},
      {"model.preset=llama3_8b", "precision.compute=bf16"},
      {"data.val=val dir/a: b.txt", "log.jsonl=\"q\\\"\\\\.jsonl\"", "threads=3"},
      {"data.val=0.05", "optimizer.lr=0.1234567890123456789", "train.seed=9007199254740993"},
      {"data.train=[a, 'true', '12', 'é', \"tab\\t\"]", "mesh.dp=-1", "train.micro_batch=2"},
      {"data.train=[{path: [a, 'b c'], weight: 0.3}, {field: 'a b', path: d}]", "data.field=x"},
      {"data.val=[a, \"0.1\"]", "schedule={name: wsd, warmup_steps: 3, min_lr: 1e-9}"},
      {"optimizer.groups=[{match: '*.norm?.*', weight_decay: 0.5}, {optimizer: lion, match: embed.weight, lr_scale: "
       "1e-3}]"},
      {"optimizer.groups=[{match: '*', optimizer: sgd}]", "optimizer.momentum=0.9", "optimizer.weight_decay=0"},
      {"parallel.plan=none"},
      {"device=cuda", "device.memory=79.5"},
      {"parallel.plan={base: none, rows: [{module: '*.mlp.up', at: weight, tp: shard(1), dp: replicate}]}"},
      {"parallel.plan={rows: [{module: '', at: output, replicate: shard(0)}]}", "model.family=bert"},
      {"model.family=bert", "model.transform=false"}};
  for (const Words& overrides : sweeps) {
    Config first = Good(kBase, overrides);
    Config second = Good(ToYaml(first));
    for (const Field& field : Schema()) {
      EXPECT_EQ(PrintValue(field, first), PrintValue(field, second)) << field.key;
    }
    EXPECT_EQ(first.device_memory, second.device_memory);
    EXPECT_EQ(first.data.val, second.data.val);
    EXPECT_EQ(first.data.train, second.data.train);
    EXPECT_EQ(first.data.mixture, second.data.mixture);
    EXPECT_EQ(Described(OptimizerOf(first)), Described(OptimizerOf(second)));
    EXPECT_EQ(Described(PlanOf(first, kTwo)), Described(PlanOf(second, kTwo)));
    EXPECT_EQ(first.log.jsonl, second.log.jsonl);
    EXPECT_EQ(first.train.seed, second.train.seed);
    EXPECT_EQ(ToYaml(first), ToYaml(second));
  }
}

TEST(Config, ResolveFillsTheMeshAndTheMicroBatch) {
  Config c = Good(kBase, {"mesh.dp=-1", "mesh.tp=2"});
  ASSERT_TRUE(Resolve(c, 6).ok());
  EXPECT_EQ(c.mesh["dp"], 3);
  EXPECT_EQ(c.train.micro_batch, 2);  // ceil(4 / 3)
  Config wide = Good(kBase, {"mesh.dp=2", "train.micro_batch=100"});
  ASSERT_TRUE(Resolve(wide, 2).ok());
  EXPECT_EQ(wide.train.micro_batch, 2);
  ASSERT_EQ(wide.notes.size(), 1u);
  EXPECT_EQ(wide.notes.back(),
            "command line: train.micro_batch: 100 acts as 2, which is a rank's whole share of train.global_batch = 4; "
            "give at most 2, or raise train.global_batch");
}

// A mode that the user gives is used on every device. The mode that auto means depends on the device, on whether all
// ranks are on one host, and on mesh.tp.
TEST(Config, OverlapFollowsTheDeviceAndTheMesh) {
  for (const char* given : {"never", "always", "fill", "halves"}) {
    Config config = Good(kBase, {"parallel.overlap=" + std::string(given), "mesh.tp=2"});
    for (DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda})
      for (bool one_host : {false, true})
        EXPECT_EQ(OverlapOf(config, device, one_host), config.parallel.overlap) << given;
  }
  Config one = Good(kBase, {"parallel.overlap=halves", "mesh.tp=2", "train.micro_batch=1"});
  EXPECT_EQ(OverlapOf(one, DeviceKind::kCuda, true), OverlapMode::kFill) << "one sequence has no halves";
  for (const char* mesh : {"mesh.tp=1", "mesh.tp=2"}) {
    Config config = Good(kBase, {mesh});
    EXPECT_EQ(OverlapOf(config, DeviceKind::kCpu, true), OverlapMode::kNever);
    EXPECT_EQ(OverlapOf(config, DeviceKind::kCpu, false), OverlapMode::kAlways);
    OverlapMode on_gpus = config.mesh["tp"] > 1 ? OverlapMode::kFill : OverlapMode::kAlways;
    for (bool one_host : {false, true}) EXPECT_EQ(OverlapOf(config, DeviceKind::kCuda, one_host), on_gpus) << mesh;
  }
}

// One data parallel rank has whole weights, so fsdp: full is none there. The note that it has no effect is true.
TEST(Config, FsdpOverOneRankIsNone) {
  for (const char* dp : {"1", "2"}) {
    Config config = Good(kBase, {"parallel.fsdp=full", "mesh.tp=2", fmt::format("mesh.dp={}", dp)});
    ASSERT_TRUE(Resolve(config, config.mesh.ranks()).ok());
    StepOptions options = StepOptionsOf(config);
    EXPECT_EQ(options.model.fsdp, *dp == '1' ? Fsdp::kNone : Fsdp::kFull);
    EXPECT_EQ(options.model.copies, *dp == '1');
  }
}

// Products are joined as asked. auto joins them on GPUs that cast weights, where ranks gather weights or share the
// columns of products, but not where chunks cut sequences.
TEST(Config, CombinationFollowsTheDeviceTheTypesTheMeshAndTheOverlap) {
  for (DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda})
    for (std::string_view compute : {"f32", "bf16"})
      for (std::string_view fsdp : {"none", "gradients", "full"})
        for (std::string_view tp : {"1", "2"})
          for (std::string_view overlap : {"auto", "fill", "halves", "chunks", "chunks of sequences"}) {
            std::vector<std::string> words{"mesh.dp=2",
                                           fmt::format("precision.compute={}", compute),
                                           fmt::format("parallel.fsdp={}", fsdp),
                                           fmt::format("mesh.tp={}", tp),
                                           fmt::format("parallel.overlap={}", overlap.substr(0, overlap.find(' '))),
                                           fmt::format("train.micro_batch={}", overlap == "chunks" ? 1 : 2)};
            bool cuts = overlap == "chunks" && tp == "2", gains = (fsdp == "full" || tp == "2") && !cuts;
            bool usual = device == DeviceKind::kCuda && compute == "bf16" && gains;
            EXPECT_EQ(NumericsOf(Good(kBase, words), device).combine, usual)
                << fmt::format("{}", fmt::join(words, " "));
            for (bool given : {false, true}) {
              words.push_back(fmt::format("kernels.combine={}", given));
              EXPECT_EQ(NumericsOf(Good(kBase, words), device).combine, given);
            }
          }
}

// The order of the axes is that of their table, whatever the file says, and axes of one rank that not every mesh has
// are left out. An axis that is no row of the table is refused with the rows, or with what is built.
TEST(Config, AxesAreRowsOfATable) {
  EXPECT_EQ(MeshOf(Good(kBase)), (MeshShape{{"dp", "tp"}, {1, 1}}));
  EXPECT_EQ(MeshOf(Good(kBase + "mesh: {tp: 2, dp: 3, replicate: 4}\n")),
            (MeshShape{{"replicate", "dp", "tp"}, {4, 3, 2}}));
  Config fill = Good(kBase, {"mesh.replicate=-1", "mesh.dp=2", "mesh.tp=2"});
  ASSERT_TRUE(Resolve(fill, 8).ok());
  EXPECT_EQ(fill.mesh["replicate"], 2);
  EXPECT_EQ(fill.train.micro_batch, 1);  // 4 sequences on 4 ranks that share the batch
  EXPECT_EQ(StepOptionsOf(fill).rows, 4);
  Config wrong = Good(kBase, {"mesh.replicate=2"});
  EXPECT_NE(Message(Resolve(wrong, 3)).find("replicate=2 x dp=1 x tp=1 is 2 ranks, but 3 started"), std::string::npos);
  auto error_of = [](const char* axis) {
    return Message(ParseConfig(kBase, "a.yaml", {fmt::format("mesh.{}=2", axis)}).status());
  };
  for (const char* axis : {"dp2", "tpp", "sp"}) {
    std::string error = error_of(axis);
    EXPECT_NE(error.find("unknown key"), std::string::npos) << error;
    EXPECT_NE(error.find("the keys here are mesh.replicate, mesh.dp, mesh.tp"), std::string::npos) << error;
  }
  for (const char* axis : {"cp", "ep", "pp", "pipeline"})
    EXPECT_NE(error_of(axis).find(" parallelism is not built; use mesh.dp, mesh.tp"), std::string::npos) << axis;
}

TEST(Config, ResolveRefusesAWrongNumberOfRanks) {
  Config c = Good(kBase + "mesh: {dp: 2, tp: 2}\n");
  EXPECT_EQ(Message(Resolve(c, 3)),
            "a.yaml:4:1: mesh: dp=2 x tp=2 is 4 ranks, but 3 started; use ranks=4 or mpirun -np 4, or change the mesh");
  Config fill = Good(kBase, {"mesh.dp=-1", "mesh.tp=2"});
  EXPECT_NE(Message(Resolve(fill, 3)).find("tp=2 needs a multiple of 2 ranks"), std::string::npos);
}

// A config for tensor parallel ranks also trains without them: no dim of a sequence is sharded, and a note says so.
TEST(Config, SequenceParallelNeedsNoTensorParallelRanks) {
  const std::string kKey = "parallel: {sequence_parallel: true}\n", kNote = "parallel.sequence_parallel: has no effect";
  for (int tp : {1, 2}) {
    Config with = Good(kBase + kKey, {fmt::format("mesh.tp={}", tp)}),
           without = Good(kBase, {fmt::format("mesh.tp={}", tp)});
    ASSERT_TRUE(Resolve(with, tp).ok());
    ASSERT_TRUE(Resolve(without, tp).ok());
    size_t rows = PlanOf(with, MeshOf(with)).rows().size();
    EXPECT_EQ(rows == PlanOf(without, MeshOf(without)).rows().size(), tp == 1);
    std::vector<std::string> notes = UnusedKeys(with);
    EXPECT_EQ(std::ranges::any_of(notes, [&](const std::string& n) { return n.find(kNote) != n.npos; }), tp == 1);
  }
}

// A note appears exactly if a chunk of the batch is empty. Chunks are those of a tensor dim: ceil(batch / ranks) each.
TEST(Config, ResolveNotesRanksWithoutSequences) {
  for (int ranks = 1; ranks <= 9; ranks++)
    for (int batch = 1; batch <= 20; batch++) {
      Config c = Good(kBase, {"mesh.dp=-1", fmt::format("train.global_batch={}", batch)});
      size_t before = c.notes.size();
      ASSERT_TRUE(Resolve(c, ranks).ok());
      int chunk = (batch + ranks - 1) / ranks, idle = 0;
      for (int rank = 0; rank < ranks; rank++) idle += rank * chunk >= batch;
      ASSERT_EQ(c.notes.size() - before, idle > 0) << batch << " over " << ranks;
      if (idle > 0) {
        EXPECT_NE(c.notes.back().find(fmt::format(" {} rank", idle)), std::string::npos) << c.notes.back();
      }
    }
  Config none;
  none.mesh["dp"] = 3;
  ASSERT_TRUE(Resolve(none, 3).ok());
  EXPECT_TRUE(none.notes.empty());
  Config tensor = Good(kBase, {"mesh.dp=-1", "mesh.tp=2", "train.global_batch=3"});
  ASSERT_TRUE(Resolve(tensor, 8).ok());
  EXPECT_EQ(tensor.notes.back(),
            "command line: train.global_batch: 3 sequences over 4 data parallel ranks leave 1 rank without any; a "
            "multiple of 4 gives each the same number");
}

// A note appears if the mesh, the sequences of a rank and the tokens leave no rows of blocks to cut.
TEST(Config, ResolveNotesThatNothingIsCutIntoChunks) {
  for (int tp = 1; tp <= 4; tp++)
    for (int context = 1; context <= 12; context++)
      for (auto [sequence, batch] : {std::pair(false, 1), {true, 1}, {true, 2}}) {
        if (sequence && tp == 1) continue;
        Config c = Good(kBase, {fmt::format("mesh.tp={}", tp), fmt::format("model.context={}", context),
                                fmt::format("train.global_batch={}", batch), "parallel.overlap=chunks",
                                fmt::format("parallel.sequence_parallel={}", sequence)});
        size_t before = c.notes.size();
        ASSERT_TRUE(Resolve(c, tp).ok());
        bool none = tp == 1 || (batch == 1 && sequence && (context % tp != 0 || context / tp < 2));
        ASSERT_EQ(c.notes.size() - before, none) << tp << " " << context << " " << batch;
        if (none) {
          EXPECT_NE(c.notes.back().find("parallel.overlap: no rows of blocks are computed in chunks"),
                    std::string::npos)
              << c.notes.back();
        }
      }
}

// A run in the folder of its config must not write over it: the saved copy adds to the log's name and takes nothing
// from it.
TEST(Config, TheMergedConfigIsSavedUnderANameOfItsOwn) {
  EXPECT_EQ(SavedConfigPath("configs/x.jsonl"), "configs/x.jsonl.config.yaml");
  std::string log = kBase + "log: {jsonl: configs/x.jsonl}\n";
  EXPECT_TRUE(ParseConfig(log, "configs/x.yaml", {}, RunRules()).ok());
  absl::Status again = ParseConfig(log, "configs/x.jsonl.config.yaml", {}, RunRules()).status();
  EXPECT_NE(Message(again).find("configs/x.jsonl.config.yaml:4:7: log.jsonl: the merged config is saved as"),
            std::string::npos);
}

TEST(Config, VocabComesFromTheTokenizerOrCoversIt) {
  Config c = Good();
  ASSERT_TRUE(ResolveVocab(c, 256).ok());
  EXPECT_EQ(c.model.vocab, 256);
  Config padded = Good(kBase, {"model.vocab=320"});
  EXPECT_TRUE(ResolveVocab(padded, 256).ok());
  EXPECT_EQ(padded.model.vocab, 320);
  Config small = Good(kBase, {"model.vocab=100"});
  EXPECT_NE(Message(ResolveVocab(small, 256)).find("command line: model.vocab: expected at least the 256"),
            std::string::npos);
}

// Published weights come with a tokenizer of as many kinds, but for the rows that pad an embedding.
TEST(Config, WeightsTakeTheirOwnTokenizer) {
  struct {
    int64_t vocab, kinds;
    bool fits;
  } cases[] = {{50257, 50257, true},   {50304, 50257, true},   {51200, 50295, true},  {128256, 128256, true},
               {151936, 151665, true}, {32064, 32011, true},   {384, 300, true},      {1000, 256, false},
               {50257, 256, false},    {128256, 50257, false}, {32000, 50257, false}, {52000, 50257, false},
               {385, 300, false},      {256, 255, true},       {50257, 50258, false}};
  for (auto [vocab, kinds, fits] : cases) {
    Config config = Good(kBase, {"model.init=m", fmt::format("model.vocab={}", vocab)});
    absl::Status status = ResolveVocab(config, kinds);
    EXPECT_EQ(status.ok(), fits) << vocab << " rows, " << kinds << " kinds of token: " << status;
    if (fits) continue;
    std::string expected = fmt::format(
        "data.tokenizer: expected the tokenizer of model.init, of model.vocab = {} kinds of token, got bytes with {}; ",
        vocab, kinds);
    EXPECT_NE(Message(status).find(expected), std::string::npos) << Message(status);
  }
  Config synthetic = Good(kBase, {"model.init=m", "model.vocab=1000", "data.synthetic=true"});
  EXPECT_TRUE(ResolveVocab(synthetic, 256).ok()) << "no text, no tokenizer";
}

// From scratch a model may have more, and most of them is worth a line.
TEST(Config, NotesAVocabOfWhichMostIsUntrained) {
  auto notes = [](const std::vector<std::string>& words, int64_t kinds) {
    Config config = Good(kBase, words);
    EXPECT_TRUE(ResolveVocab(config, kinds).ok());
    return config.notes;
  };
  EXPECT_TRUE(notes({}, 256).empty());
  EXPECT_TRUE(notes({"model.vocab=512"}, 256).empty());
  EXPECT_TRUE(notes({"model.vocab=50257", "data.synthetic=true"}, 256).empty());
  std::vector<std::string> some = notes({"model.vocab=513"}, 256);
  ASSERT_EQ(some.size(), 1);
  EXPECT_TRUE(
      some[0].starts_with("command line: model.vocab: 513 is more than twice the 256 kinds of token of tokenizer "
                          "bytes: "))
      << some[0];
}

TEST(Config, TheFolderOfInitialWeightsBringsItsTokenizer) {
  TempFolder folder;
  auto tokenizer = [](const std::vector<std::string>& words) { return Good(kBase, words).data.tokenizer; };
  std::string weights = folder.Write("m/model.safetensors", "x"), m = folder.Path("m"), init = "model.init=" + m;
  EXPECT_EQ(tokenizer({init}), "bytes") << "it has none";
  folder.Write("m/tokenizer.model", "x");
  EXPECT_EQ(tokenizer({init}), "huggingface:" + m);
  folder.Write("m/tokenizer.json", "x");
  EXPECT_EQ(tokenizer({init}), "huggingface:" + m);
  EXPECT_EQ(tokenizer({"model.init=" + weights}), "huggingface:" + m);
  EXPECT_EQ(tokenizer({init, "data.tokenizer=chars"}), "chars") << "unless the config names one";
  EXPECT_EQ(tokenizer({}), "bytes");
  // What a checkpoint saves names it.
  std::string saved = ToYaml(Good(kBase, {init}));
  EXPECT_NE(saved.find("huggingface:" + m), std::string::npos) << saved;
}

TEST(Suggest, CountsEdits) {
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("dp", "pd"), 1);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("LR", "lr"), 0);
}

TEST(Suggest, FirstFewNames) {
  EXPECT_EQ(FirstFew({}), "");
  EXPECT_EQ(FirstFew({"a", "b"}, 2), "a, b");
  EXPECT_EQ(FirstFew({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

}  // namespace
}  // namespace weft
