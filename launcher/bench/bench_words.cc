#include "launcher/bench/bench_words.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "launcher/bench/number_list.h"
#include "weft/core/host/suggest.h"
#include "weft/train/config/config_schema.h"

namespace weft {
namespace {

using OptionList = std::vector<Option>;

OptionList CollectiveOptions(BenchWords& w) {
  return {
      {{.key = "op", .help = "collectives, with commas between them, or all; default: those of FSDP"}, &w.op},
      {{.key = "bytes", .help = "sizes, 4K,1M or 1M..64M; default: 1M..64M"}, &w.bytes},
      {{.key = "factor", .help = "from size to size of a range; default: 4", .bounds = {.low = 2, .high = 1024}},
       &w.factor},
      {{.key = "dtype", .help = "f64, f32, bf16, f16, i64, i32, u8; default: f32"}, &w.dtype},
      {{.key = "axis", .help = "the mesh axis whose ranks communicate, or world; default: world"}, &w.axis},
      {{.key = "memory", .help = "ordinary, or mapped into the ranks of an axis: copied, symmetric; default: ordinary"},
       &w.memory}};
}

OptionList GemmOptions(BenchWords& w) {
  return {{{.key = "m", .help = "rows of the result; default: 256,512,1024 or, on a GPU, 2048,4096,8192"}, &w.m},
          {{.key = "n", .help = "columns of the result; default: m"}, &w.n},
          {{.key = "k", .help = "the dimension that is summed; default: m"}, &w.k},
          {{.key = "dtype", .help = "f64, f32, bf16, f16; default: f32 or, on a GPU, bf16"}, &w.dtype}};
}

OptionList SdpaOptions(BenchWords& w) {
  return {
      {{.key = "batch", .help = "sequences; default: 1 (on a GPU, where no size is given: three common shapes)"},
       &w.batch},
      {{.key = "heads", .help = "query heads; default: 8"}, &w.heads},
      {{.key = "kv_heads", .help = "key and value heads, which divide the query heads; default: heads"}, &w.kv_heads},
      {{.key = "seq", .help = "tokens; default: 128,256,512"}, &w.seq},
      {{.key = "head_dim", .help = "elements of a head; default: 64"}, &w.head_dim},
      {{.key = "causal", .help = "whether a token sees only those before it; default: true"}, &w.causal},
      {{.key = "window",
        .help = "tokens that a token sees, itself included; needs causal=true; default: 0, which is all"},
       &w.window},
      {{.key = "documents", .help = "documents of equal length, to one token, which do not see each other; default: 1"},
       &w.documents},
      {{.key = "padding", .help = "share of a sequence that is padding at its end, which no token sees; default: 0"},
       &w.padding},
      {{.key = "pass", .help = "forward, backward; default: both"}, &w.pass},
      {{.key = "dtype", .help = "f64, f32, bf16, f16; default: f32 or, on a GPU, bf16"}, &w.dtype}};
}

OptionList EncoderOptions(BenchWords& w) {
  return {{{.key = "batch", .help = "sequences; default: 16 or, on a GPU, 64"}, &w.batch},
          {{.key = "seq", .help = "tokens of a sequence, with its padding; default: 128 or, on a GPU, 512"}, &w.seq},
          {{.key = "padding", .help = "share of all tokens that is padding; default: 0.5"}, &w.share_of_padding},
          {{.key = "layers", .help = "of the encoder; default: 2 or, on a GPU, 12"}, &w.layers},
          {{.key = "heads", .help = "of attention; default: 8 or, on a GPU, 12"}, &w.heads},
          {{.key = "dim", .help = "width of a token; default: 512 or, on a GPU, 768"}, &w.dim},
          {{.key = "ffn", .help = "hidden width of the MLP; default: 2048 or, on a GPU, 3072"}, &w.ffn},
          {{.key = "pass", .help = "forward, step (forward, backward and update); default: both"}, &w.pass},
          {{.key = "dtype", .help = "f64, f32, bf16; default: f32 or, on a GPU, bf16"}, &w.dtype}};
}

OptionList CopyOptions(BenchWords& w) {
  return {
      {{.key = "bytes", .help = "read and written together, 4K,1M or 1M..64M; default: 4K..64M or, on a GPU, 4K..1G"},
       &w.copy_bytes},
      {{.key = "factor", .help = "from size to size of a range; default: 4", .bounds = {.low = 2, .high = 1024}},
       &w.factor},
      {{.key = "dtype", .help = "f64, f32, bf16, f16; default: f32 or, on a GPU, bf16"}, &w.dtype}};
}

OptionList RatesOptions(BenchWords& w) {
  return {
      {{.key = "config", .help = "the YAML file whose step is to be predicted; required"}, &w.config_path},
      {{.key = "meshes",
        .help =
            "config: that of the config; all: also the kernels of all that weft plan --search tries; default: config"},
       &w.meshes},
      {{.key = "settle",
        .help = "seconds of load before products are timed; default: 0 or, on a GPU, 15",
        .bounds = {.low = 0, .high = 600}},
       &w.settle}};
}

OptionList StepOptions(BenchWords& w) {
  return {{{.key = "config", .help = "the YAML file whose training step is timed; required"}, &w.config_path},
          {{.key = "executor", .help = "compiled, interpret, eager; default: all"}, &w.executor}};
}

OptionList DispatchOptions(BenchWords& w) {
  return {{{.key = "op", .help = "add, product; default: both"}, &w.op},
          {{.key = "executor", .help = "compiled, interpret, eager; default: all"}, &w.executor},
          {{.key = "elements", .help = "of a tensor of add, and rows of a square matrix of product; default: 16"},
           &w.elements}};
}

struct KindRow {
  const char* name;
  OptionList (*options)(BenchWords& words);
  std::vector<std::string> config_keys;
};
const std::vector<KindRow>& Kinds() {
  static const std::vector<KindRow> kinds = {
      {"collective", CollectiveOptions, {"device", "threads", "mesh", "dist"}},
      {"gemm", GemmOptions, {"device", "threads", "kernels"}},
      {"sdpa", SdpaOptions, {"device", "threads", "kernels"}},
      {"encoder", EncoderOptions, {"device", "threads", "mesh", "kernels"}},
      {"step", StepOptions, {}},
      {"dispatch", DispatchOptions, {"device", "threads"}},
      {"copy", CopyOptions, {"device", "threads"}},
      {"rates", RatesOptions, {}},
  };
  return kinds;
}

const KindRow& KindOf(const std::string& name) {
  return *std::find_if(Kinds().begin(), Kinds().end(), [&](const KindRow& kind) { return kind.name == name; });
}

OptionList AllOptions(BenchWords& words) {
  OptionList options = BenchOptions(words.kind, words);
  for (Option& option : BenchCommonOptions(words)) options.push_back(std::move(option));
  return options;
}

absl::Status Bad(const std::string& what, const std::string& word, const std::vector<std::string>& choices) {
  std::string nearest = Nearest(word, choices);
  return absl::InvalidArgumentError(fmt::format("weft bench: {}{}\nweft bench --help says how to use it", what,
                                                nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
}

// Returns these keys and sections of the config as options that write into `config`.
OptionList ConfigOptions(const std::vector<std::string>& keys, Config& config) {
  OptionList options;
  for (const Field& field : Schema()) {
    std::string key = field.key;
    bool taken = std::find(keys.begin(), keys.end(), key.substr(0, key.find('.'))) != keys.end();
    if (taken) options.push_back({field, field.ref(config)});
  }
  return options;
}

// Reads the keys of the config. All ranks are along dp unless an argument sets the mesh.
absl::Status TakeConfig(Words& rest, BenchWords& words) {
  words.config.mesh["dp"] = MeshConfig::kFill;
  bool meshed = std::any_of(rest.begin(), rest.end(), [](const std::string& w) { return w.find("mesh.") != w.npos; });
  if (meshed) words.config.mesh["dp"] = 1;
  absl::StatusOr<std::set<std::string>> given =
      TakeOptions(ConfigOptions(BenchConfigKeys(words.kind), words.config), rest);
  if (!given.ok()) return given.status();
  for (const std::string& key : *given) words.config.origins[key] = kCommandLine;
  return absl::OkStatus();
}

absl::Status RefuseRest(const Words& rest, BenchWords& words) {
  std::vector<std::string> keys;
  for (const Option& option : AllOptions(words)) keys.emplace_back(option.field.key);
  for (const Option& option : ConfigOptions(BenchConfigKeys(words.kind), words.config))
    keys.emplace_back(option.field.key);
  for (const std::string& word : rest) {
    size_t begin = word.find_first_not_of('-');
    std::string key = begin == word.npos ? word : word.substr(begin, word.find('=') - begin);
    return Bad(fmt::format("expected keys of {} as key=value, got {:?}", words.kind, word), key, keys);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> BenchKindNames() {
  std::vector<std::string> names;
  for (const KindRow& kind : Kinds()) names.emplace_back(kind.name);
  return names;
}

std::vector<Option> BenchOptions(const std::string& kind, BenchWords& words) { return KindOf(kind).options(words); }

std::vector<Option> BenchCommonOptions(BenchWords& w) {
  return {{{.key = "json", .help = "print one JSON object per line"}, &w.json, Option::kFlag},
          {{.key = "seconds",
            .help = "that the repeats of a case take together, about; default: 0.2",
            .bounds = {.low = 0, .high = 3600, .low_open = true}},
           &w.seconds},
          {{.key = "repeats",
            .help = "of a case; default: as many as fit into the seconds, from 5 to 1000",
            .bounds = {.low = 1, .high = 1e6}},
           &w.repeats}};
}

std::vector<std::string> BenchConfigKeys(const std::string& kind) { return KindOf(kind).config_keys; }

absl::StatusOr<BenchWords> ParseBenchWords(const Words& words) {
  std::vector<std::string> kinds = BenchKindNames();
  std::string name = words.empty() ? "" : words[0];
  if (std::find(kinds.begin(), kinds.end(), name) == kinds.end())
    return Bad(fmt::format("expected {} first, got {}", fmt::join(kinds, ", "),
                           words.empty() ? "nothing" : fmt::format("{:?}", name)),
               name, kinds);
  BenchWords parsed{.kind = name};
  Words rest(words.begin() + 1, words.end());
  if (absl::Status s = TakeOptions(AllOptions(parsed), rest).status(); !s.ok()) return s;
  if (!BenchConfigKeys(name).empty()) {
    if (absl::Status s = TakeConfig(rest, parsed); !s.ok()) return s;
    if (absl::Status s = RefuseRest(rest, parsed); !s.ok()) return s;
    return parsed;
  }
  if (parsed.config_path.empty()) {
    bool path = !rest.empty() && !SetsKey(rest[0]);
    return Bad(fmt::format("config is missing; expected config={}",
                           path ? rest[0] : "FILE, a YAML file such as configs/quickstart.yaml"),
               "", kinds);
  }
  parsed.overrides = rest;
  return parsed;
}

absl::StatusOr<std::vector<DType>> BenchDTypes(const BenchWords& words, const std::string& otherwise, bool floating) {
  std::vector<std::string> choices{"f64", "f32", "bf16", "f16"};
  if (!floating) choices.insert(choices.end(), {"i64", "i32", "u8"});
  absl::StatusOr<std::vector<std::string>> names =
      ParseNames("dtype", words.dtype.empty() ? otherwise : words.dtype, choices);
  if (!names.ok()) return names.status();
  std::vector<DType> dtypes;
  for (const std::string& name : *names) dtypes.push_back(*DTypeFromName(name));
  return dtypes;
}

absl::StatusOr<std::vector<std::string>> BenchExecutors(const BenchWords& words) {
  const std::vector<std::string> all{"compiled", "interpret", "eager"};
  return words.executor.empty() ? all : ParseNames("executor", words.executor, all);
}

}  // namespace weft
