#include "launcher/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "weft/core/base/memory.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/plan_group.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/step/kernel_choices.h"
#include "weft/train/config/model_of.h"

namespace weft {
namespace {

// The kernel tables of a run on that device.
void Register(KernelTable& table, DeviceKind device) {
  if (device == DeviceKind::kCpu) RegisterCpuKernels(table);
  if (device == DeviceKind::kCuda)
    if (absl::Status s = OpenCudaKernels(table); !s.ok()) Fail(std::string(s.message()));
  RegisterCollectives(table, device);
}

std::string TotalsText(const std::vector<CommLine>& lines) {
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> totals;  // (axis, op): calls, bytes
  for (const CommLine& l : lines) {
    auto& [calls, bytes] = totals[{l.axis_name, Name(l.op)}];
    calls += l.times;
    bytes += l.times * l.bytes;
  }
  std::string text = totals.empty() ? "  no collectives\n" : "";
  for (const auto& [key, total] : totals)
    text += fmt::format("  {:4} {:14} {:6} calls {:>14} bytes\n", key.first, key.second, total.first, total.second);
  return text;
}

nlohmann::ordered_json JsonOf(const CommLine& l) {
  return {{"op", Name(l.op)},       {"axis", l.axis_name},
          {"bytes", l.bytes},       {"shape", std::vector<int64_t>(l.shape.begin(), l.shape.end())},
          {"phase", Name(l.phase)}, {"times", l.times},
          {"scope", l.scope},       {"line", l.line}};
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

// "39.4 KiB (40320 B)", "512 B".
std::string ExactText(int64_t bytes) {
  std::string text = BytesText(size_t(bytes)), exact = fmt::format("{} B", bytes);
  return text == exact ? text : fmt::format("{} ({})", text, exact);
}

// What the bytes alone do not say.
std::string MemoryText(const PlanReport& r) {
  std::string text = fmt::format("  fullest at {}; largest workspace: {}\n", r.fullest, r.largest_workspace);
  if (r.device == DeviceKind::kCpu) return text;
  return text +
         fmt::format(
             "  predicted peak {} on {}, and {} of staging on the host; cuDNN's scratch, where it runs attention, is "
             "that of sm_90, and what CUDA and its libraries keep for themselves comes on top\n",
             BytesText(size_t(r.memory.Total())), Name(r.device), BytesText(size_t(r.memory.staging)));
}

}  // namespace

PlanReport MakePlanReport(const Config& config) {
  PlanReport report{.device = config.device == DeviceChoice::kCuda ? DeviceKind::kCuda : DeviceKind::kCpu};
  StepOptions options = StepOptionsOf(config);
  Context context(0, options.model.mesh.num_ranks());
  context.set_numerics(NumericsOf(config));
  Register(context.kernels(report.device), report.device);
  options.kernels = &context.kernels(report.device);
  PlanGroupFactory groups;
  DeviceMesh mesh(context, groups, options.model.mesh, {report.device});
  Runtime runtime = RuntimeOf(context, mesh, report.device);
  TrainingStep step(ModelOf(config), options);
  if (step.accumulate()) report.lines = CommPlan(*step.accumulate(), options.micro_steps - 1);
  std::vector<CommLine> lines = CommPlan(step.step());
  report.lines.insert(report.lines.end(), lines.begin(), lines.end());
  StepPlans plans = step.Compile(runtime);
  report.memory = MemoryNeedOf(step, &plans, report.device);
  if (!config.checkpoint.dir.empty()) report.memory += SnapshotNeedOf(step, mesh.coords(), report.device);
  const Plan& largest = plans.Largest();
  report.fullest = largest.fullest < largest.steps.size() ? PlaceOf(*largest.steps[largest.fullest].node) : "the end";
  report.largest_workspace = LargestWorkspace(largest);
  report.flops = step.micro_flops() * options.micro_steps;
  report.kernels = KernelChoices(step.step().graph, runtime);
  report.inlined = step.step().inlined;
  return report;
}

std::string ToText(const PlanReport& r) {
  std::string text;
  for (const CommLine& l : r.lines)
    text += fmt::format("{:14} {:4} {:>12} B  {:5} {:20} {:9} x{}  {}  {}\n", Name(l.op), l.axis_name, l.bytes,
                        Name(l.dtype), ToString(l.shape), Name(l.phase), l.times, l.scope, l.line);
  text += "\nper step and rank:\n" + TotalsText(r.lines);
  for (const std::string& op : r.inlined) text += fmt::format("  inlined: {}\n", op);
  if (!r.kernels.empty()) text += fmt::format("  kernels: {}\n", r.kernels);
  text += "  ";
  for (const auto& [name, bytes] : r.memory.Categories()) text += fmt::format("{} {}, ", name, ExactText(bytes));
  text += fmt::format("together {}\n{}", ExactText(r.memory.Total()), MemoryText(r));
  return text + fmt::format("  {:.4g} FLOPs in products, all ranks together\n", r.flops);
}

std::string ToJson(const PlanReport& r) {
  std::vector<std::string> lines;  // one each, for whoever compares two plans
  for (const CommLine& l : r.lines) lines.push_back("\n    " + JsonOf(l).dump());
  nlohmann::ordered_json memory;
  for (const auto& [name, bytes] : r.memory.Categories()) memory[name] = bytes;
  memory["total"] = r.memory.Total();
  std::string device;
  if (r.device != DeviceKind::kCpu)
    device = fmt::format("  \"device\": \"{}\",\n  \"staging\": {},\n  \"kernels\": {},\n", Name(r.device),
                         r.memory.staging, nlohmann::json(r.kernels).dump());
  return fmt::format("{{\n  \"collectives\": [{}],\n  \"memory\": {},\n{}  \"flops\": {}\n}}\n", fmt::join(lines, ","),
                     memory.dump(), device, nlohmann::json(r.flops).dump());
}

}  // namespace weft
