#include "weft/parallel/step/kernel_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "weft/core/ir/record.h"

namespace weft {
namespace {

// Returns "" if the kernel has nothing to explain.
std::string Explain(const Node& node, const Runtime& runtime) {
  if (!runtime.kernels().Has(node.op) || !runtime.kernels().Row(node.op).explain) return "";
  std::vector<TensorView> in, out;
  for (const Var& x : node.inputs) in.push_back(runtime.View(x.node().outputs[size_t(x.index())], nullptr));
  for (const ValueInfo& y : node.outputs) out.push_back(runtime.View(y, nullptr));
  return runtime.kernels().Row(node.op).explain(CallOf(node, in, out, runtime));
}

// The extra time of a deterministic gradient of attention over the fastest one in any order, in seconds per operation
// that a causal mask leaves. tests/bench/results.md has the measurements. For large heads the algorithms differ less.
// For more keys than 1024 cuDNN runs in parts (kernels/cuda/plan/cudnn_sizes.h). Flash multiplies by warpgroups to head
// size 128, except from 65 to 96.
struct Excess {
  const char* backend;
  int64_t most_head_size, most_keys;
  double seconds;
};
constexpr int64_t kAnyKeys = std::numeric_limits<int64_t>::max();
constexpr Excess kExcesses[] = {{"flash in one pass", 64, 1024, 0.07e-15},
                                {"flash in one pass", 128, kAnyKeys, 0.55e-15},
                                {"cudnn", 64, 1024, 0.8e-15},
                                {"cudnn", 256, 1024, 0},
                                {"cudnn", 64, kAnyKeys, 1.7e-15},
                                {"cudnn", 256, kAnyKeys, 1.1e-15},
                                {"flash", 64, kAnyKeys, 1.7e-15},
                                {"flash", 96, kAnyKeys, 2.8e-15},
                                {"flash", 128, kAnyKeys, 1.05e-15},
                                {"flash", 256, kAnyKeys, 2.8e-15}};
// Operations per second of a step, counting all of attention, masked or not. The recipes for one GPU reach 530e12 to
// 650e12.
constexpr double kStepRate = 570e12;

double ExcessOf(const std::string& answer, int64_t head_size, int64_t keys) {
  for (const Excess& e : kExcesses)
    if (answer.starts_with(e.backend) && head_size <= e.most_head_size && keys <= e.most_keys) return e.seconds;
  return 0;
}

// Whether the backend that a run without an order has is one of those that Excess is about.
bool AddsInAnyOrder(const std::string& answer) {
  return answer.starts_with("cudnn") || answer.starts_with("flash in one pass");
}

std::string CostText(double cost) {
  if (cost == 0) return "";
  std::string percent = cost < 0.01 ? "less than 1" : fmt::format("about {:.0f}", 100 * cost);
  return fmt::format("; kernels.deterministic costs {} % of the speed (rates of a Hopper GPU)", percent);
}

}  // namespace

double CostOfDeterminism(const Graph& local, const Runtime& runtime) {
  if (runtime.device != DeviceKind::kCuda || !runtime.context->numerics().deterministic) return 0;
  Numerics numerics = runtime.context->numerics();
  numerics.deterministic = false;
  Context relaxed(runtime.context->rank(), runtime.context->world_size());
  relaxed.set_numerics(numerics);
  relaxed.kernels(runtime.device) = runtime.kernels();
  Runtime otherwise = runtime;
  otherwise.context = &relaxed;
  double operations = 0, longer = 0;
  for (const auto& node : local.nodes) {
    operations += ProductFlops(*node);
    if (node->op != Op::kSdpaGrad || !AddsInAnyOrder(Explain(*node, otherwise))) continue;
    double seen = ProductFlops(*node) / (node->attrs.IntOr("causal", 0) ? 2 : 1);
    longer += seen * ExcessOf(Explain(*node, runtime), node->inputs[0].dim(3), node->inputs[1].dim(1));
  }
  return longer > 0 ? longer / (operations / kStepRate + longer) : 0;
}

std::string KernelChoices(const Graph& local, const Runtime& runtime) {
  std::vector<std::pair<std::string, std::vector<std::string>>> answers;  // and the ops that gave them
  for (const auto& node : local.nodes) {
    std::string answer = Explain(*node, runtime);
    if (answer.empty()) continue;
    auto same = [&](const auto& other) { return other.first == answer; };
    auto at = std::find_if(answers.begin(), answers.end(), same);
    if (at == answers.end()) at = answers.insert(at, {answer, {}});
    std::vector<std::string>& ops = at->second;
    if (std::find(ops.begin(), ops.end(), Name(node->op)) == ops.end()) ops.push_back(Name(node->op));
  }
  std::string text;
  for (const auto& [answer, ops] : answers)
    text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", fmt::join(ops, " and "), answer);
  return text + CostText(CostOfDeterminism(local, runtime));
}

}  // namespace weft
