// weft plan: what a config would do on any number of ranks. No devices, no data, no other ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "core/compile/comm_plan.h"
#include "core/compile/plan.h"
#include "dist/collectives.h"
#include "dist/plan_group.h"
#include "kernels/cpu/register.h"
#include "launcher/command.h"
#include "parallel/train/data.h"
#include "parallel/train/setup.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft plan CONFIG [ranks=N] [key=value...] [--json]

Prints every collective of a training step (op, axis, bytes per rank as handed over, shape, phase, runs per step, module,
line), the memory of a rank by category, and the FLOPs of a step, for a mesh of N ranks (default: the product of the mesh).
Needs neither devices nor data: where tokenizer chars would take model.vocab from a text that is not here, a note says
what is assumed.

  weft plan configs/quickstart.yaml ranks=8 mesh.dp=4 mesh.tp=2
)";

struct Report {
  std::vector<CommLine> lines;
  StateBytes state;
  int64_t arena = 0;
  double flops = 0;
  std::vector<std::string> inlined, notes;  // notes: what was assumed
};

// Takes ranks=N out of the overrides; 0 where there is none.
absl::StatusOr<int64_t> TakeRanks(Words& overrides) {
  int64_t ranks = 0;
  for (const std::string& word : overrides) {
    if (!word.starts_with("ranks=")) continue;
    if (!absl::SimpleAtoi(word.substr(6), &ranks) || ranks < 1 || ranks > kMaxRanks)
      return absl::InvalidArgumentError(
          fmt::format("command line: ranks: expected an integer >= 1 and <= {}, got {:?}", kMaxRanks, word.substr(6)));
  }
  std::erase_if(overrides, [](const std::string& word) { return word.starts_with("ranks="); });
  return ranks;
}

// The vocabulary of chars is that of a text, which need not be here: then a note says what was assumed in its place.
absl::Status FillVocab(Config& config, std::vector<std::string>& notes) {
  constexpr int64_t kAssumed = 256;
  if (config.data.tokenizer != "chars") return ResolveVocab(config, Tokenizer::Bytes().vocab());
  if (config.model.vocab > 0) return absl::OkStatus();
  absl::StatusOr<Dataset> data = Dataset::Load(config);
  if (data.ok()) return ResolveVocab(config, data->tokenizer().vocab());
  notes.push_back(fmt::format("model.vocab = {} is assumed; give model.vocab=N, as tokenizer chars has no text ({})",
                              kAssumed, std::string(data.status().message())));
  return ResolveVocab(config, kAssumed);
}

absl::StatusOr<Config> Load(const ConfigWords& words, std::vector<std::string>& notes) {
  Words overrides = words.overrides;
  absl::StatusOr<int64_t> ranks = TakeRanks(overrides);
  if (!ranks.ok()) return ranks.status();
  absl::StatusOr<Config> config = LoadConfig(words.path, overrides);
  if (!config.ok()) return config;
  if (*ranks == 0) ranks = std::max<int64_t>(config->mesh.dp, 1) * std::max<int64_t>(config->mesh.tp, 1);
  if (absl::Status s = Resolve(*config, int(*ranks)); !s.ok()) return s;
  if (absl::Status s = FillVocab(*config, notes); !s.ok()) return s;
  return config;
}

Report MakeReport(const Config& config) {
  StepOptions options = StepOptionsOf(config);
  Transformer model(ModelOf(config));
  StepPrograms programs = BuildStep(model, options);
  Context context(0, options.model.mesh.num_ranks());
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  PlanGroupFactory groups;
  DeviceMesh mesh(context, groups, options.model.mesh);
  Runtime runtime{&context, &mesh, options.model.mesh, mesh.coords()};

  Report report;
  if (programs.accumulate) {
    report.lines = CommPlan(*programs.accumulate, options.micro_steps - 1);
    report.arena = int64_t(MakePlan(*programs.accumulate, runtime).arena_bytes);
  }
  std::vector<CommLine> step = CommPlan(programs.step);
  report.lines.insert(report.lines.end(), step.begin(), step.end());
  report.arena = std::max(report.arena, int64_t(MakePlan(programs.step, runtime).arena_bytes));
  report.state = StateBytesOf(model, options, programs);
  report.flops = programs.micro_flops * options.micro_steps;
  report.inlined = programs.step.inlined;
  return report;
}

void PrintJson(const Report& r) {
  nlohmann::json json;
  json["collectives"] = nlohmann::json::array();
  for (const CommLine& l : r.lines)
    json["collectives"].push_back({{"op", Name(l.op)},
                                   {"axis", l.axis_name},
                                   {"bytes", l.bytes},
                                   {"shape", std::vector<int64_t>(l.shape.begin(), l.shape.end())},
                                   {"dtype", Name(l.dtype)},
                                   {"phase", Name(l.phase)},
                                   {"times", l.times},
                                   {"scope", l.scope},
                                   {"line", l.line}});
  json["memory"] = {{"parameters", r.state.parameters},     {"moments", r.state.moments}, {"copies", r.state.copies},
                    {"accumulators", r.state.accumulators}, {"slots", r.state.slots},     {"activations", r.arena},
                    {"total", r.state.Total() + r.arena}};
  json["flops"] = r.flops;
  json["inlined"] = r.inlined;
  json["notes"] = r.notes;
  fmt::print("{}\n", json.dump(2));
}

void PrintText(const Report& r) {
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> totals;  // (axis, op): calls, bytes
  for (const CommLine& l : r.lines) {
    fmt::print("{:14} {:4} {:>12} B  {:5} {:20} {:9} x{}  {}  {}\n", Name(l.op), l.axis_name, l.bytes, Name(l.dtype),
               ToString(l.shape), Name(l.phase), l.times, l.scope, l.line);
    auto& [calls, bytes] = totals[{l.axis_name, Name(l.op)}];
    calls += l.times;
    bytes += l.times * l.bytes;
  }
  for (const std::string& note : r.notes) fmt::print("\nnote: {}\n", note);
  fmt::print("\nper step and rank:\n");
  if (totals.empty()) fmt::print("  no collectives\n");
  for (const auto& [key, total] : totals)
    fmt::print("  {:4} {:14} {:6} calls {:>14} bytes\n", key.first, key.second, total.first, total.second);
  for (const std::string& op : r.inlined) fmt::print("  inlined: {}\n", op);
  fmt::print(
      "  parameters {} B, moments {} B, copies {} B, accumulators {} B, slots {} B, activations {} B, together {} B\n",
      r.state.parameters, r.state.moments, r.state.copies, r.state.accumulators, r.state.slots, r.arena,
      r.state.Total() + r.arena);
  fmt::print("  {:.4g} FLOPs in products, all ranks together\n", r.flops);
}

}  // namespace

int PlanCommand(const Words& words) {
  Words rest = words;
  bool json = std::erase(rest, "--json") > 0;
  if (AsksForHelp(words)) {
    fmt::print("{}", kHelp);
    return 0;
  }
  absl::StatusOr<ConfigWords> split = SplitWords("plan", rest);
  std::vector<std::string> notes;
  absl::StatusOr<Config> config = split.ok() ? Load(*split, notes) : split.status();
  if (!config.ok()) {
    fmt::print(stderr, "{}\n", std::string(config.status().message()));
    return 2;
  }
  try {
    Report report = MakeReport(*config);
    report.notes = notes;
    if (json)
      PrintJson(report);
    else
      PrintText(report);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "weft: {}\n", e.what());
    return 1;
  }
}

}  // namespace weft
