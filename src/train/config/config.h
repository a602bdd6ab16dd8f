// Config: every key of a run, typed. Read from strict YAML, then overridden by path=value words of the command line.
//
//   absl::StatusOr<Config> config = LoadConfig("configs/quickstart.yaml", {"mesh.dp=2", "train.steps=10"});
//   absl::Status ranks = Resolve(*config, world_size);
//
// A key is one member here and one row in config_schema.cc, nothing else.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weft/core/base/dtype.h"
#include "weft/parallel/nn/plans/mesh_axes.h"
#include "weft/parallel/nn/plans/sharding_plan.h"

namespace weft {

enum class FsdpMode { kNone, kGradients, kFull };
enum class CheckMode { kNone, kExplicit };
enum class RegatherMode { kAuto, kAlways, kNever };
enum class TrainObjective { kNext, kMasked };  // as Objective of families
enum class DeviceChoice { kAuto, kCpu, kCuda };
enum class ExecutorMode { kCompiled, kInterpret, kEager };
enum class NumericsMode { kDefault, kInvariant };
enum class AttentionBackend { kAuto, kCudnn, kFlash, kPlain };  // those of CUDA

// Of files, folders and globs. In blocks: a string takes 32 bytes, however short the path, and a config that lists many
// is to need no single allocation of many times its own size.
using PathList = std::deque<std::string>;

// Validation data: paths, or the fraction of the training data that is cut off its tail. Neither means no evaluation.
struct ValSource {
  PathList paths;
  double fraction = 0;
  bool empty() const { return paths.empty() && fraction == 0; }
  bool operator==(const ValSource&) const = default;
};

struct ModelConfig {
  std::string preset;
  std::string family;  // of ModelFamilies()
  int64_t layers = 0, heads = 0, kv_heads = 0, dim = 0, ffn = 0;
  int64_t vocab = 0;  // 0 until ResolveVocab: the tokenizer's
  int64_t context = 0;
  double dropout = 0;
  bool tie_embeddings = true;
  double norm_eps = 1e-5, rope_theta = 10000;
  double rope_factor = 1, rope_low = 1, rope_high = 4;  // as RopeScaling has them
  int64_t rope_context = 8192;
  std::string init;                   // safetensors; "": random values
  PathList init_neutral;              // keys of its config.json
  std::map<std::string, double> own;  // of families (FamilyKey); true is 1
};

// One source of a mixture.
struct MixturePart {
  PathList paths;
  double weight = 1;  // its share of the sequences is weight / the sum of all weights
  std::string field;  // of its JSONL records; "": data.field
  bool operator==(const MixturePart&) const = default;
};
inline constexpr size_t kMaxSources = 64;  // of a mixture

struct DataConfig {
  PathList train;                    // of all parts
  std::vector<MixturePart> mixture;  // none: data.train is one source
  ValSource val;
  std::string tokenizer = "bytes", field = "text";
  bool shuffle = true, synthetic = false;
};

inline constexpr int64_t kMaxRanks = 65'536;

// The ranks along each axis of kMeshAxes, in its order.
struct MeshConfig {
  static constexpr int64_t kFill = -1;  // until Resolve
  std::array<int64_t, kNumMeshAxes> sizes = [] {
    std::array<int64_t, kNumMeshAxes> ones{};
    ones.fill(1);
    return ones;
  }();

  // By the name of a row; throws Error where there is none.
  int64_t& operator[](std::string_view axis);
  int64_t operator[](std::string_view axis) const { return const_cast<MeshConfig&>(*this)[axis]; }
  // The product of the sizes that are given. It stops where it passes kMaxRanks.
  int64_t ranks() const;
  int64_t num_fills() const { return std::count(sizes.begin(), sizes.end(), kFill); }
};

// A row of parallel.plan, and where it stands in its file.
struct PlanRow {
  ShardingPlan::Row row{};
  int line = 0, column = 0;
};
struct PlanConfig {
  std::string base;  // of NamedPlans(); "" until LoadPlan: the family's
  std::vector<PlanRow> rows;
  std::string file;  // that the rows stand in; "": the config or a word
};

struct ParallelConfig {
  PlanConfig plan;
  bool sequence_parallel = false;
  FsdpMode fsdp = FsdpMode::kNone;
  RegatherMode regather = RegatherMode::kAuto;
  CheckMode check = CheckMode::kNone;
};

struct PrecisionConfig {
  DType compute = DType::kF32, params = DType::kF32, reduce = DType::kF32;
};

// Of precision.compute: f16.
struct LossScaleConfig {
  double initial = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min = 1;
};

// Parameters whose paths match, and what is their own.
struct OptimizerGroup {
  std::string match;
  double lr_scale = 1;
  std::optional<double> weight_decay;  // none: as without the group
  std::string optimizer;               // of OptimizerRules(); "": optimizer.name
  int line = 0, column = 0;            // of the config's file
};

struct OptimizerConfig {
  std::string name = "adamw";  // of OptimizerRules()
  double lr = 1e-3;
  // Those below are the optimizer's own until they are given.
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8, momentum = 0;
  bool nesterov = false;
  double weight_decay = 0.1;
  std::vector<OptimizerGroup> groups;  // a parameter is of the last one that matches
};

struct ScheduleConfig {
  std::string name = "constant";  // of Schedules()
  int64_t warmup_steps = 0;
  double min_lr = 0;
};

struct TrainConfig {
  int64_t steps = 0, global_batch = 0;
  int64_t micro_batch = 0;  // 0 until Resolve: the whole share of a dp rank
  int64_t seed = 1;
  TrainObjective objective = TrainObjective::kNext;
  double clip = 1;  // 0: no clipping
  double label_smoothing = 0;
  int64_t eval_every = 0;  // 0: after the last step only
  int64_t eval_batches = kAllBatches;
  int64_t sample_every = 0;  // 0: no samples
  static constexpr int64_t kAllBatches = -1;
};

struct KernelsConfig {
  bool deterministic = true, tf32 = false;
  AttentionBackend attention = AttentionBackend::kAuto;
};

struct DistConfig {
  double timeout_s = 300;
};

struct CheckpointConfig {
  std::string dir;              // "": nothing is saved
  int64_t every = 0, keep = 0;  // 0: after the last step only; all are kept
  std::string resume = "never";
};

struct LogConfig {
#define WEFT_LOG_OUTPUT(name, help) std::string name;
#include "weft/train/config/log_outputs.def"
#undef WEFT_LOG_OUTPUT
  int64_t every = 10;
  bool ops = false;
};

// Steps from the first to the last of them, counted from 1; empty: none.
struct StepRange {
  int64_t first = 0, last = 0;
  bool empty() const { return first == 0; }
  bool operator==(const StepRange&) const = default;
};

struct ProfileConfig {
  StepRange steps;   // empty: nothing is profiled
  std::string path;  // of the trace
  // A trace of more cannot be looked at, and on a GPU each call of them takes two events.
  static constexpr int64_t kMaxSteps = 100;
};

// The place of what was given as a word.
inline constexpr const char* kCommandLine = "command line: ";

struct Config {
  ModelConfig model;
  DataConfig data;
  MeshConfig mesh;
  ParallelConfig parallel;
  PrecisionConfig precision;
  LossScaleConfig loss_scale;
  KernelsConfig kernels;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainConfig train;
  std::string run;  // "": outputs go only where their keys say
  DeviceChoice device = DeviceChoice::kAuto;
  ExecutorMode executor = ExecutorMode::kCompiled;
  NumericsMode numerics = NumericsMode::kDefault;
  int64_t threads = 0;  // 0: auto
  DistConfig dist;
  CheckpointConfig checkpoint;
  LogConfig log;
  ProfileConfig profile;

  std::string file;  // that it was read from, as errors name it
  // Where each given key or section stands, as errors name it: "configs/a.yaml:3:11: " or "command line: ".
  std::map<std::string, std::string> origins;
  bool Given(const std::string& key) const { return origins.contains(key); }
  std::vector<std::string> notes;  // for people: what was changed so that it fits
};

struct ConfigFault {
  std::string key, what;  // and what to do
};
// Checks a config against what the config itself does not know: files on disk, for example. Those of a run that is to
// begin are in preflight/run_rules.h.
using ConfigRule = std::vector<ConfigFault> (*)(const Config& config);

// Reads, merges and checks everything that needs no other rank and no data. The error holds every fault, one a line.
absl::StatusOr<Config> LoadConfig(const std::string& path, const std::vector<std::string>& overrides,
                                  std::span<const ConfigRule> rules = {});
// The same for text at hand; `name` stands for the file in errors.
absl::StatusOr<Config> ParseConfig(std::string_view yaml, const std::string& name,
                                   const std::vector<std::string>& overrides, std::span<const ConfigRule> rules = {});

// Fills mesh axes of -1 and train.micro_batch; refuses a mesh whose product is not the number of ranks.
absl::Status Resolve(Config& config, int world_size);
// Fills model.vocab, or refuses one that does not fit the tokenizer; notes one that is mostly untrained.
absl::Status ResolveVocab(Config& config, int64_t tokenizer_vocab);

// The merged config as YAML: reading it back gives the same Config.
std::string ToYaml(const Config& config);
// Where a run with this log.jsonl saves it: a name of its own, as the log's folder may hold the user's configs too.
std::string SavedConfigPath(const std::string& jsonl);
// Where the run of this config saves it: in the folder of a run that has a name, the name config.yaml is free.
std::string SavedConfigPath(const Config& config);

}  // namespace weft
