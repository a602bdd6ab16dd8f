#include "launcher/plan/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/plan/traffic.h"
#include "weft/core/base/memory.h"
#include "weft/core/ops/structural.h"
#include "weft/core/passes/node_time.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/step/kernel_choices.h"
#include "weft/train/config/model_of.h"
#include "weft/train/config/recompute_value.h"
#include "weft/train/log/metrics.h"
#include "weft/train/preflight/memory_check.h"
#include "weft/train/preflight/regather.h"

namespace weft {
namespace {

nlohmann::ordered_json JsonOf(const CommLine& l) {
  return {{"op", Name(l.op)},       {"axis", l.axis_name},
          {"bytes", l.bytes},       {"shape", std::vector<int64_t>(l.shape.begin(), l.shape.end())},
          {"phase", Name(l.phase)}, {"times", l.times},
          {"scope", l.scope},       {"line", l.line}};
}

// Returns the waits that take more than a thousandth of the step, longest first, and at most five.
std::vector<Wait> LongestWaits(const StepTime& time) {
  std::vector<Wait> waits = time.waits;
  std::erase_if(waits, [&](const Wait& wait) { return wait.ms < 1e-3 * time.total; });
  std::ranges::stable_sort(waits, [](const Wait& a, const Wait& b) { return a.ms > b.ms; });
  if (waits.size() > 5) waits.resize(5);
  return waits;
}

// Returns the kernels by their time, longest first.
std::vector<KernelTime> LongestKernels(const StepTime& time) {
  std::vector<KernelTime> kernels = time.kernels;
  std::ranges::stable_sort(kernels, std::greater(), &KernelTime::ms);
  return kernels;
}

std::string TimeJson(const PlanReport& r) {
  if (!r.time) return "";
  const StepTime& t = *r.time;
  nlohmann::ordered_json parts = {{"products", t.products},    {"attention", t.attention},
                                  {"other_kernels", t.memory}, {"exposed_collectives", t.exposed},
                                  {"slower_kernels", t.lost},  {"collectives", t.collectives}};
  nlohmann::ordered_json waits = nlohmann::json::array();
  for (const Wait& w : LongestWaits(t))
    waits.push_back({{"ms", w.ms}, {"times", w.times}, {"kernel", w.kernel}, {"collective", w.collective}});
  nlohmann::ordered_json kernels = nlohmann::json::array();
  for (const KernelTime& k : LongestKernels(t))
    kernels.push_back({{"ms", k.ms}, {"times", k.times}, {"kernel", k.kernel}});
  return fmt::format(
      "  \"step_ms\": {},\n  \"parts_ms\": {},\n  \"waits\": {},\n  \"kernels_ms\": {},\n  \"tokens_per_s\": {},\n",
      nlohmann::json(t.total).dump(), parts.dump(), waits.dump(), kernels.dump(),
      nlohmann::json(TokensPerSecond(r)).dump());
}

std::string PlaceOf(const Node& node) {
  return fmt::format("{} at {} in {}", Name(node.op), ToString(node.loc), node.scope ? *node.scope : "");
}

std::string LargestWorkspace(const Plan& plan) {
  auto less = [](const Step& a, const Step& b) { return a.workspace_bytes < b.workspace_bytes; };
  auto most = std::max_element(plan.steps.begin(), plan.steps.end(), less);
  if (most == plan.steps.end() || most->workspace_bytes == 0) return "none";
  return fmt::format("{} of {}", BytesText(most->workspace_bytes), PlaceOf(*most->node));
}

// Returns "39.4 KiB", or with `exact` "39.4 KiB (40320 B)".
std::string BytesOf(int64_t bytes, bool exact) {
  std::string text = BytesText(size_t(bytes)), all = fmt::format("{} B", bytes);
  return !exact || text == all ? text : fmt::format("{} ({})", text, all);
}

std::string Counted(int64_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string SizesText(const PlanReport& r) {
  int ranks = r.mesh.num_ranks();
  std::string text = fmt::format("model: {}, {} parameters\n", r.model, CountText(r.parameters));
  text += fmt::format("mesh: {}, {} ({})\n", ToString(r.mesh), Counted(ranks, "rank"), Name(r.device));
  return text + fmt::format("step: {} of {}, {} on a rank, {} in each\n", Counted(r.global_batch, "sequence"),
                            Counted(r.context, "token"),
                            r.micro_steps == 1 ? "1 micro-batch" : fmt::format("{} micro-batches", r.micro_steps),
                            Counted(r.micro_batch, "sequence"));
}

// Describes what parallel.regather: auto chose, and why. Returns "" if it had no choice.
std::string WeightsText(const Config& config, const StepOptions& options, DeviceKind device) {
  if (!AsksForMemory(config, options, device)) return "";
  if (DeviceBytes(config) == 0)
    return "gathered weights are kept for the backward pass: no size of a GPU's memory is given; device.memory=GIB "
           "plans "
           "for one";
  return fmt::format(
      "gathered weights are {}, as device.memory is {} GiB",
      options.model.regather ? "not kept but gathered again for the backward pass" : "kept for the backward pass",
      config.device_memory);
}

// Returns the lines that explain the numbers of bytes.
std::string MemoryNotes(const PlanReport& r) {
  std::string text = fmt::format("  fullest at {}\n  largest workspace: {}\n", r.fullest, r.largest_workspace);
  if (!r.data.unknown.empty()) text += fmt::format("  data is not counted: {}\n", r.data.unknown);
  if (r.data.text > 0)
    text +=
        fmt::format("  data is estimated; while it is read, {} of text are held too\n", BytesText(size_t(r.data.text)));
  if (!r.weights.empty()) text += fmt::format("  {}\n", r.weights);
  if (r.device == DeviceKind::kCpu) return text;
  if (r.most > 0 && size_t(r.memory.Total()) > r.most)
    text += fmt::format("  too much: device.memory is {}, so that weft train refuses such a run\n", BytesText(r.most));
  return text + fmt::format(
                    "  predicted peak {} on {}, and {} of staging on the host; cuDNN's scratch, where it runs "
                    "attention, is that of sm_90, and what CUDA and its libraries keep for themselves comes on top\n",
                    BytesText(size_t(r.memory.Total())), Name(r.device), BytesText(size_t(r.memory.staging)));
}

std::string MemoryText(const PlanReport& r, bool exact) {
  std::string text = fmt::format("\nmemory per rank: {}\n", BytesOf(r.memory.Total(), exact));
  for (const auto& [name, bytes] : r.memory.Categories())
    if (bytes > 0 || exact)
      text +=
          fmt::format("  {:13} {:>10}{}\n", name, BytesText(size_t(bytes)), exact ? fmt::format(" ({} B)", bytes) : "");
  return text + MemoryNotes(r);
}

std::string ComputeText(const PlanReport& r) {
  std::string text = fmt::format("\ncompute per step: {} in products, {} per rank\n", FlopsText(r.flops),
                                 FlopsText(r.flops / r.mesh.num_ranks()));
  if (!r.recompute.empty()) text += fmt::format("  recompute: {}\n", r.recompute);
  if (!r.kernels.empty()) text += fmt::format("  kernels: {}\n", r.kernels);
  if (!r.joined.empty()) text += fmt::format("  kernels.combine: {}\n", r.joined);
  for (const std::string& op : r.inlined) text += fmt::format("  inlined: {}\n", op);
  return text;
}

std::string TimesText(int64_t times) { return times == 1 ? "once" : fmt::format("{} times", times); }

// Returns a line for each of the five longest kernels, or with `all` for every kernel.
std::string KernelsText(const StepTime& time, bool all) {
  std::vector<KernelTime> kernels = LongestKernels(time);
  if (!all && kernels.size() > 5) kernels.resize(5);
  std::string text;
  for (const KernelTime& k : kernels)
    text += fmt::format("  {:20} {:>9.4g} ms  {:>3.0f} %, {}: {}\n", "kernel time", k.ms, 100 * k.ms / time.total,
                        TimesText(k.times), k.kernel);
  return text;
}

std::string TimeText(const PlanReport& r, bool all) {
  if (!r.time) return "";
  const StepTime& t = *r.time;
  std::string text = fmt::format("\npredicted step: {:.4g} ms, {} tokens/s per {}\n", t.total,
                                 CountText(int64_t(TokensPerSecond(r))), r.device == DeviceKind::kCpu ? "rank" : "GPU");
  for (const auto& [name, ms] : {std::pair{"products", t.products},
                                 {"attention", t.attention},
                                 {"other kernels", t.memory},
                                 {"exposed collectives", t.exposed},
                                 {"slower kernels", t.lost}})
    text += fmt::format("  {:20} {:>9.4g} ms  {:>3.0f} %\n", name, ms, 100 * ms / t.total);
  if (t.exposed < t.collectives)
    text += fmt::format("  {:20} {:>9.4g} ms, while kernels run\n", "hidden collectives", t.collectives - t.exposed);
  for (const Wait& w : LongestWaits(t))
    text += fmt::format("  {:20} {:>9.4g} ms, {}: {}, for {}\n", "kernels wait", w.ms, TimesText(w.times), w.kernel,
                        w.collective);
  return text + KernelsText(t, all) + fmt::format("  by rates of {}\n", r.rates);
}

// Returns the rows of a table, one per line.
std::string RowsText(const std::vector<TrafficRow>& rows, size_t axis_width, bool exact) {
  std::string text;
  for (const TrafficRow& row : rows) {
    text += row.phase.empty() ? "  " : fmt::format("    {:9}  ", row.phase);
    text += fmt::format("{:{}}  {:14} {:6} call{} {:>9}{}\n", row.axis, axis_width, Name(row.op), row.calls,
                        row.calls == 1 ? " " : "s", BytesText(size_t(row.bytes)),
                        exact ? fmt::format(" ({} B)", row.bytes) : "");
  }
  return text;
}

size_t AxisWidth(const std::vector<CommLine>& lines) {
  size_t width = 0;
  for (const CommLine& line : lines) width = std::max(width, line.axis_name.size());
  return width;
}

std::string TrafficText(const PlanReport& r, bool exact) {
  if (r.lines.empty()) return "\ncollectives: none\n";
  std::vector<TrafficRow> rows = TrafficByAxis(r.lines);
  int64_t calls = 0, bytes = 0;
  for (const TrafficRow& row : rows) calls += row.calls, bytes += row.bytes;
  size_t width = AxisWidth(r.lines);
  std::string text =
      fmt::format("\ncollectives per step and rank: {}, {}\n", Counted(calls, "call"), BytesOf(bytes, exact));
  text += RowsText(rows, width, exact);
  text += "\ncollectives by module:\n";
  for (const ModuleTraffic& module : TrafficByModule(r.lines))
    text += fmt::format("  {}\n{}", module.name, RowsText(module.rows, width, exact));
  return text;
}

std::string LinesText(const std::vector<CommLine>& lines) {
  if (lines.empty()) return "";
  size_t axis = AxisWidth(lines), shape = 0;
  for (const CommLine& l : lines) shape = std::max(shape, ToString(l.shape).size());
  std::string text = "\nevery collective of a rank, in order:\n";
  for (const CommLine& l : lines)
    text += fmt::format("{:14} {:{}} {:>12} B  {:5} {:{}} {:9} x{}  {}  {}\n", Name(l.op), l.axis_name, axis, l.bytes,
                        Name(l.dtype), ToString(l.shape), shape, Name(l.phase), l.times, l.scope, l.line);
  return text;
}

// Returns the concat of weights that a product reads, itself or gathered; null if it reads another value.
const Node* JoinedWeights(const Node& product) {
  if (product.inputs.size() < 2) return nullptr;
  const Node* node = &product.inputs[1].node();
  if (node->op == Op::kAllGather) node = &node->inputs[0].node();
  return node->op == Op::kConcat && IsPacked(node->attrs) ? node : nullptr;
}
// Says how many groups of weights are joined.
std::string JoinedText(const Plan& plan, const Runtime& runtime) {
  if (!runtime.context->numerics().combine) return "";
  std::set<const Node*> groups;
  for (const Step& step : plan.steps)
    if (step.node->phase == Phase::kForward)
      if (const Node* weights = JoinedWeights(*step.node)) groups.insert(weights);
  if (groups.empty()) return "joins nothing here, as it joins only products of one value without biases";
  return fmt::format("joins the products of {} of weights", Counted(int64_t(groups.size()), "group"));
}

// Describes what the plan computes again, by the products that it has more than the program.
std::string RecomputeText(const Config& config, const TrainingStep& step, const Plan& plan) {
  const RecomputeConfig& recompute = config.train.recompute;
  if (recompute.mode == RecomputeMode::kNone) return "";
  double once = 0, all = 0;
  for (const auto& node : step.step().graph.nodes) once += LocalFlops(*node);
  for (const Step& s : plan.steps) all += LocalFlops(*s.node);
  std::string text = fmt::format("{}: {:.1f} % more products", PrintRecompute(recompute), 100 * (all / once - 1));
  if (recompute.mode != RecomputeMode::kBudget) return text;
  return text + fmt::format("; {:.1f} % of what can be computed again", 100 * step.options().recompute.share);
}

// Returns a report with the sizes of the model and of a step. PlanStep adds the rest.
PlanReport Described(const Config& config, const TrainingStep& step) {
  PlanReport report{.device = PlannedDevice(config)};
  const StepOptions& options = step.options();
  report.model = fmt::format("{}, {}", config.model.family, Counted(config.model.layers, "block"));
  for (const Parameter* p : step.model().Parameters()) report.parameters += NumElements(p->shape());
  report.mesh = options.model.mesh;
  report.global_batch = config.train.global_batch;
  report.micro_batch = config.train.micro_batch;
  report.context = config.model.context;
  report.micro_steps = options.micro_steps;
  report.flops = step.micro_flops() * options.micro_steps;
  return report;
}

void AddPlans(const Config& config, PlannedStep& planned, PlanReport& report) {
  const StepPlans& plans = planned.plans();
  TrainingStep& step = planned.step();
  if (plans.accumulate) report.lines = CommPlan(*plans.accumulate, report.mesh, report.micro_steps - 1);
  std::vector<CommLine> lines = CommPlan(plans.step, report.mesh);
  report.lines.insert(report.lines.end(), lines.begin(), lines.end());
  report.memory = MemoryNeedOf(step, &plans, report.device);
  if (!config.checkpoint.dir.empty()) report.memory += SnapshotNeedOf(step, planned.runtime().coords, report.device);
  if (report.device != DeviceKind::kCpu) report.most = DeviceBytes(config);
  report.recompute = RecomputeText(config, step, plans.step);
  report.joined = JoinedText(plans.step, planned.runtime());
  report.data = EstimateDataNeed(config);
  report.memory += HeldDataNeed(report.data.tokens, report.device);
  const Plan& largest = plans.Largest();
  report.fullest = largest.fullest < largest.steps.size() ? PlaceOf(*largest.steps[largest.fullest].node) : "the end";
  report.largest_workspace = LargestWorkspace(largest);
}

}  // namespace

PlanReport MakePlanReport(const Config& config, PlannedStep& planned) {
  const TrainingStep& step = planned.step();
  PlanReport report = Described(config, step);
  report.weights = WeightsText(config, step.options(), planned.device());
  AddPlans(config, planned, report);
  report.kernels = KernelChoices(step.step().graph, planned.runtime());
  report.inlined = step.step().inlined;
  return report;
}

PlanReport MakePlanReport(const Config& config) {
  PlannedStep planned(config);
  return MakePlanReport(config, planned);
}

absl::Status AddTime(const PlannedStep& planned, const RatesFile& file, PlanReport& report) {
  if (absl::Status s = CheckDevice(file, planned.device()); !s.ok()) return s;
  absl::StatusOr<StepTime> time = TimeOf(planned, file.rates);
  if (!time.ok()) return absl::InvalidArgumentError("rates: " + LacksText(file, time.status()));
  report.time = *time;
  report.rates = fmt::format("{} ({})", file.device_name, file.path);
  return absl::OkStatus();
}

double TokensPerSecond(const PlanReport& r) {
  return double(r.global_batch * r.context) * 1e3 / r.time->total / r.mesh.num_ranks();
}

std::string FlopsText(double flops) {
  const char* unit = "FLOP";
  for (const char* next : {"kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"}) {
    if (flops < 1000) break;
    flops /= 1000;
    unit = next;
  }
  return fmt::format("{:.4g} {}", flops, unit);
}

std::string ToText(const PlanReport& r, bool verbose) {
  std::string text =
      SizesText(r) + MemoryText(r, verbose) + ComputeText(r) + TimeText(r, verbose) + TrafficText(r, verbose);
  return verbose ? text + LinesText(r.lines) : text;
}

std::string ToJson(const PlanReport& r) {
  std::vector<std::string> lines;  // one line per collective, so that a diff of two plans is readable
  for (const CommLine& l : r.lines) lines.push_back("\n    " + JsonOf(l).dump());
  nlohmann::ordered_json memory;
  for (const auto& [name, bytes] : r.memory.Categories()) memory[name] = bytes;
  memory["total"] = r.memory.Total();
  std::string device;
  if (r.device != DeviceKind::kCpu)
    device = fmt::format("  \"device\": \"{}\",\n  \"staging\": {},\n  \"kernels\": {},\n", Name(r.device),
                         r.memory.staging, nlohmann::json(r.kernels).dump());
  return fmt::format("{{\n  \"collectives\": [{}],\n  \"memory\": {},\n{}{}  \"flops\": {}\n}}\n",
                     fmt::join(lines, ","), memory.dump(), device, TimeJson(r), nlohmann::json(r.flops).dump());
}

}  // namespace weft
