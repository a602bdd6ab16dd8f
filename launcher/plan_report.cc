#include "launcher/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/compile/fuse.h"
#include "core/compile/plan.h"
#include "dist/collectives.h"
#include "dist/mesh.h"
#include "dist/plan_group.h"
#include "kernels/cpu/register.h"

namespace weft {
namespace {

// As the compiled executor has it: training and evaluation never run at the same time and share one arena.
int64_t ArenaBytes(Transformer& model, const StepOptions& options, const StepPrograms& programs) {
  Context context(0, options.model.mesh.num_ranks());
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  PlanGroupFactory groups;
  DeviceMesh mesh(context, groups, options.model.mesh);
  Runtime runtime{&context, &mesh, options.model.mesh, mesh.coords()};
  auto bytes = [&](const LocalProgram& program) {
    return int64_t(MakePlan(Fuse(program, runtime.kernels()), runtime).arena_bytes);
  };
  int64_t most = std::max(bytes(programs.step), bytes(BuildEval(model, options)));
  return programs.accumulate ? std::max(most, bytes(*programs.accumulate)) : most;
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

}  // namespace

PlanReport MakePlanReport(const Config& config) {
  StepOptions options = StepOptionsOf(config);
  Transformer model(ModelOf(config));
  StepPrograms programs = BuildStep(model, options);
  PlanReport report;
  if (programs.accumulate) report.lines = CommPlan(*programs.accumulate, options.micro_steps - 1);
  std::vector<CommLine> step = CommPlan(programs.step);
  report.lines.insert(report.lines.end(), step.begin(), step.end());
  report.arena = ArenaBytes(model, options, programs);
  report.state = StateBytesOf(model, options, programs);
  report.flops = programs.micro_flops * options.micro_steps;
  report.inlined = programs.step.inlined;
  return report;
}

std::string ToText(const PlanReport& r) {
  std::string text;
  for (const CommLine& l : r.lines)
    text += fmt::format("{:14} {:4} {:>12} B  {:5} {:20} {:9} x{}  {}  {}\n", Name(l.op), l.axis_name, l.bytes,
                        Name(l.dtype), ToString(l.shape), Name(l.phase), l.times, l.scope, l.line);
  text += "\nper step and rank:\n" + TotalsText(r.lines);
  for (const std::string& op : r.inlined) text += fmt::format("  inlined: {}\n", op);
  text += fmt::format(
      "  parameters {} B, moments {} B, copies {} B, accumulators {} B, slots {} B, activations {} B, together {} B\n",
      r.state.parameters, r.state.moments, r.state.copies, r.state.accumulators, r.state.slots, r.arena,
      r.TotalBytes());
  return text + fmt::format("  {:.4g} FLOPs in products, all ranks together\n", r.flops);
}

std::string ToJson(const PlanReport& r) {
  std::vector<std::string> lines;  // one each, for whoever compares two plans
  for (const CommLine& l : r.lines) lines.push_back("\n    " + JsonOf(l).dump());
  nlohmann::ordered_json memory = {{"parameters", r.state.parameters}, {"moments", r.state.moments},
                                   {"copies", r.state.copies},         {"accumulators", r.state.accumulators},
                                   {"slots", r.state.slots},           {"activations", r.arena},
                                   {"total", r.TotalBytes()}};
  return fmt::format("{{\n  \"collectives\": [{}],\n  \"memory\": {},\n  \"flops\": {}\n}}\n", fmt::join(lines, ","),
                     memory.dump(), nlohmann::json(r.flops).dump());
}

}  // namespace weft
