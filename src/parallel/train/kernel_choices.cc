#include "parallel/train/kernel_choices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace weft {
namespace {

std::string Explain(const Node& node, const Runtime& runtime) {
  std::vector<TensorView> in, out;
  for (const Var& x : node.inputs) in.push_back(runtime.View(x.node().outputs[size_t(x.index())], nullptr));
  for (const ValueInfo& y : node.outputs) out.push_back(runtime.View(y, nullptr));
  return runtime.kernels().Row(node.op).explain({&node.attrs, in, out, nullptr, 0, runtime.context, runtime.mesh});
}

}  // namespace

std::string KernelChoices(const Graph& local, const Runtime& runtime) {
  std::vector<std::pair<std::string, std::vector<std::string>>> answers;  // and the ops that gave them
  for (const auto& node : local.nodes) {
    if (!runtime.kernels().Has(node->op) || !runtime.kernels().Row(node->op).explain) continue;
    std::string answer = Explain(*node, runtime);
    auto same = [&](const auto& other) { return other.first == answer; };
    auto at = std::find_if(answers.begin(), answers.end(), same);
    if (at == answers.end()) at = answers.insert(at, {answer, {}});
    std::vector<std::string>& ops = at->second;
    if (std::find(ops.begin(), ops.end(), Name(node->op)) == ops.end()) ops.push_back(Name(node->op));
  }
  std::string text;
  for (const auto& [answer, ops] : answers)
    text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", fmt::join(ops, " and "), answer);
  return text;
}

}  // namespace weft
