// Config: every key of a run, typed. Read from strict YAML, then overridden by key=value arguments of the command line.
//
//   absl::StatusOr<Config> config = LoadConfig("configs/quickstart.yaml", {"mesh.dp=2", "train.steps=10"});
//   absl::Status ranks = Resolve(*config, world_size);
//
// A new key needs one member here and one row in config_schema.cc.
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
#include "weft/core/compile/overlap/overlap_mode.h"
#include "weft/core/passes/recompute_options.h"
#include "weft/parallel/nn/plans/mesh_axes.h"
#include "weft/parallel/nn/plans/sharding_plan.h"
#include "weft/parallel/step/gather_mode.h"

namespace weft {

enum class FsdpMode { kNone, kGradients, kFull };
enum class CheckMode { kNone, kExplicit };
enum class RegatherMode { kAuto, kAlways, kNever };
enum class CopyMode { kAuto, kAlways, kNever };
enum class CombineMode { kAuto, kTrue, kFalse };
enum class ActivationGrads { kSeparate, kFused };
enum class WireMode { kReduce, kBf16 };
enum class TrainObjective { kNext, kMasked, kPairs };  // Objective of the model families, as a config value
enum class DeviceChoice { kAuto, kCpu, kCuda };
enum class ExecutorMode { kCompiled, kInterpret, kEager };
enum class NumericsMode { kDefault, kInvariant };
enum class AttentionBackend { kAuto, kCudnn, kFlash, kPlain };  // attention kernels on CUDA

// Paths, folders or globs. A deque, so that a long list of short paths needs no large contiguous allocation.
using PathList = std::deque<std::string>;

// Validation data: paths, or the fraction of the training data that is cut off its end. If neither is set, there is no
// evaluation.
struct ValSource {
  PathList paths;
  double fraction = 0;
  bool empty() const { return paths.empty() && fraction == 0; }
  bool operator==(const ValSource&) const = default;
};

struct ModelConfig {
  std::string preset;
  std::string family;  // a name in ModelFamilies()
  int64_t layers = 0, heads = 0, kv_heads = 0, dim = 0, ffn = 0;
  int64_t vocab = 0;  // 0 until ResolveVocab: use the tokenizer's
  int64_t context = 0;
  double dropout = 0;
  bool tie_embeddings = true;
  double norm_eps = 1e-5, rope_theta = 10000;
  double rope_factor = 1, rope_low = 1, rope_high = 4;  // as in RopeScaling
  int64_t rope_context = 8192;
  std::string init;       // a safetensors file or its folder; "": random values
  PathList init_neutral;  // ignored keys of its config.json
  // Keys of the model family (FamilyKey); true is 1. Integers are apart.
  std::map<std::string, double> own;
  std::map<std::string, int64_t> own_integers;
};

// One source of a mixture.
struct MixturePart {
  PathList paths;
  double weight = 1;  // its share of the sequences is weight / the sum of all weights
  std::string field;  // of its JSONL records; "": data.field
  bool operator==(const MixturePart&) const = default;
};
inline constexpr size_t kMaxSources = 64;  // per mixture

struct DataConfig {
  PathList train;                    // the paths of all sources
  std::vector<MixturePart> mixture;  // empty: data.train is a single source
  ValSource val;
  std::string tokenizer = "bytes", field = "text";
  bool shuffle = true, synthetic = false;
};

inline constexpr int64_t kMaxRanks = 65'536;

// The number of ranks along each axis, in the order of kMeshAxes.
struct MeshConfig {
  static constexpr int64_t kFill = -1;  // fill this axis; replaced by Resolve
  std::array<int64_t, kNumMeshAxes> sizes = [] {
    std::array<int64_t, kNumMeshAxes> ones{};
    ones.fill(1);
    return ones;
  }();

  // Accesses an axis by its name in kMeshAxes. Throws Error if there is no such axis.
  int64_t& operator[](std::string_view axis);
  int64_t operator[](std::string_view axis) const { return const_cast<MeshConfig&>(*this)[axis]; }
  // Returns the product of the known sizes. Stops multiplying once it exceeds kMaxRanks.
  int64_t ranks() const;
  int64_t num_fills() const { return std::count(sizes.begin(), sizes.end(), kFill); }
};

// A row of parallel.plan, with its position in the file.
struct PlanRow {
  ShardingPlan::Row row{};
  int line = 0, column = 0;
};
struct PlanConfig {
  std::string base;  // a name in NamedPlans(); "" until LoadPlan sets the family's
  std::vector<PlanRow> rows;
  std::string file;  // that contains the rows; "": the config or the command line
};

struct ParallelConfig {
  PlanConfig plan;
  bool sequence_parallel = false;
  FsdpMode fsdp = FsdpMode::kNone;
  RegatherMode regather = RegatherMode::kAuto;
  OverlapMode overlap = OverlapMode::kAuto;
  int64_t chunks = 0;
  GatherMode gather = GatherMode::kKernels;
  bool symmetric_memory = false;
  CheckMode check = CheckMode::kNone;
};

struct PrecisionConfig {
  DType compute = DType::kF32, params = DType::kF32, reduce = DType::kF32;
  WireMode wire = WireMode::kReduce;
  CopyMode copies = CopyMode::kAuto;
};

// Used with precision.compute: f16.
struct LossScaleConfig {
  double initial = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min = 1;
};

// Overrides for the parameters whose paths match `match`.
struct OptimizerGroup {
  std::string match;
  double lr_scale = 1;
  std::optional<double> weight_decay;  // none: keep the default of the parameter
  std::string optimizer;               // a name in OptimizerRules(); "": optimizer.name
  int line = 0, column = 0;            // position in the config's file
};

struct OptimizerConfig {
  std::string name = "adamw";  // a name in OptimizerRules()
  double lr = 1e-3;
  // A key below that is not given gets the default of the optimizer; see FillOptimizer.
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8, momentum = 0;
  bool nesterov = false;
  double weight_decay = 0.1;
  std::vector<OptimizerGroup> groups;  // the last group that matches a parameter applies
};

struct ScheduleConfig {
  std::string name = "constant";  // a name in Schedules()
  int64_t warmup_steps = 0;
  double min_lr = 0;
};

// train.recompute: a mode, or a budget.
struct RecomputeConfig {
  RecomputeMode mode = RecomputeMode::kNone;
  double budget = 0;  // GiB that a rank may need; used by kBudget
};

struct TrainConfig {
  int64_t steps = 0, global_batch = 0;
  int64_t micro_batch = 0;  // 0 until Resolve: the whole share of a dp rank
  int64_t seed = 1;
  TrainObjective objective = TrainObjective::kNext;
  double clip = 1;  // maximum norm of the gradient; 0: no clipping
  double label_smoothing = 0;
  RecomputeConfig recompute;
  int64_t eval_every = 0;  // in steps; 0: after the last step only
  int64_t eval_batches = kAllBatches;
  int64_t sample_every = 0;  // in steps; 0: no samples
  static constexpr int64_t kAllBatches = -1;
};

struct KernelsConfig {
  bool deterministic = true, tf32 = false;
  CombineMode combine = CombineMode::kAuto;
  ActivationGrads activation_grads = ActivationGrads::kFused;
  double logits = 1;  // GiB
  AttentionBackend attention = AttentionBackend::kAuto;
};

struct DistConfig {
  double timeout_s = 300;
};

struct CheckpointConfig {
  std::string dir;              // "": nothing is saved
  int64_t every = 0, keep = 0;  // 0: save after the last step only; keep all
  std::string resume = "never";
};

struct LogConfig {
#define WEFT_LOG_OUTPUT(name, help) std::string name;
#include "weft/train/config/log_outputs.def"
#undef WEFT_LOG_OUTPUT
  int64_t every = 10;
  bool ops = false;
};

// The steps first to last, both included, counted from 1. Empty if `first` is 0.
struct StepRange {
  int64_t first = 0, last = 0;
  bool empty() const { return first == 0; }
  bool operator==(const StepRange&) const = default;
};

struct ProfileConfig {
  StepRange steps;   // empty: nothing is profiled
  std::string path;  // the file of the trace
  // A longer trace is too large to view, and on a GPU each call of a profiled step takes two events.
  static constexpr int64_t kMaxSteps = 100;
};

// The prefix of errors about command-line arguments.
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
  std::string run;  // "": outputs go only to the paths in their own keys
  DeviceChoice device = DeviceChoice::kAuto;
  double device_memory = 0;  // device.memory in GiB; 0: all memory of the GPU
  ExecutorMode executor = ExecutorMode::kCompiled;
  NumericsMode numerics = NumericsMode::kDefault;
  int64_t threads = 0;  // per rank; 0: auto
  DistConfig dist;
  CheckpointConfig checkpoint;
  LogConfig log;
  ProfileConfig profile;

  std::string file;  // the file it was read from, as shown in errors
  // The position of each given key or section, as a prefix of errors: "configs/a.yaml:3:11: " or "command line: ".
  std::map<std::string, std::string> origins;
  bool Given(const std::string& key) const { return origins.contains(key); }
  std::vector<std::string> notes;  // messages for the user about values that were adjusted
};

struct ConfigFault {
  std::string key, what;  // what is wrong and how to fix it
};
// Checks a config against its surroundings, for example files on disk. preflight/run_rules.h has the rules for starting
// a run.
using ConfigRule = std::vector<ConfigFault> (*)(const Config& config);

// Reads, merges and checks everything that needs neither other ranks nor data. On failure, the error has one line per
// fault; reading stops after 20 faults.
absl::StatusOr<Config> LoadConfig(const std::string& path, const std::vector<std::string>& overrides,
                                  std::span<const ConfigRule> rules = {});
// Parses `yaml` in the same way; `name` replaces the file name in errors.
absl::StatusOr<Config> ParseConfig(std::string_view yaml, const std::string& name,
                                   const std::vector<std::string>& overrides, std::span<const ConfigRule> rules = {});

// Fills mesh axes of -1 and train.micro_batch. Returns an error if the mesh does not have `world_size` ranks. Adds a
// note if some ranks would get no sequence.
absl::Status Resolve(Config& config, int world_size);
// Fills model.vocab, or returns an error if it does not fit the tokenizer. Adds a note if most of the vocabulary would
// stay untrained.
absl::Status ResolveVocab(Config& config, int64_t tokenizer_vocab);

// Returns the merged config as YAML. Parsing it gives an equal Config.
std::string ToYaml(const Config& config);
// Returns the path of the merged config for a run that logs to `jsonl`. The name derives from the log's, because the
// log's folder may contain configs of the user.
std::string SavedConfigPath(const std::string& jsonl);
// Returns the path at which the run of this config saves it: config.yaml if the log is in the folder of a named run,
// otherwise the path for log.jsonl.
std::string SavedConfigPath(const Config& config);

}  // namespace weft
