#include "weft/core/ir/graph.h"

#include <fmt/format.h>

#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/record.h"

namespace weft {
namespace {

std::string PrintValue(const ValueInfo& info) {
  std::string text = fmt::format("{} {}", Name(info.dtype), ToString(info.shape));
  if (info.sharding.num_axes()) text += fmt::format(" of {} {}", ToString(info.global), ToString(info.sharding));
  return text;
}

std::string PrintNode(const Node& node) {
  std::string text = fmt::format("%{} = {}(", node.id, Name(node.op));
  for (size_t i = 0; i < node.inputs.size(); i++) {
    const Var& in = node.inputs[i];
    text += fmt::format("{}%{}", i ? ", " : "", in.node().id);
    if (in.node().outputs.size() > 1) text += fmt::format(".{}", in.index());
  }
  text += ")";
  if (!node.attrs.items().empty()) text += " " + ToString(node.attrs);
  for (size_t i = 0; i < node.outputs.size(); i++) text += (i ? ", " : " : ") + PrintValue(node.outputs[i]);
  return text + fmt::format("  // {} {} {}\n", Name(node.phase), node.scope ? *node.scope : "", ToString(node.loc));
}

}  // namespace

std::string Print(const Graph& graph) {
  std::string text;
  for (const auto& node : graph.nodes) text += PrintNode(*node);
  for (const NamedValue& out : graph.outputs)
    text += fmt::format("output {} = %{}.{}\n", out.name, out.value.node().id, out.value.index());
  for (const NamedValue& write : graph.writes)
    text += fmt::format("write {} = %{}.{}\n", write.name, write.value.node().id, write.value.index());
  return text;
}

Graph RemoveDead(const Graph& graph) {
  absl::flat_hash_set<const Node*> live;
  live.reserve(graph.nodes.size());
  for (auto* list : {&graph.outputs, &graph.writes})
    for (const NamedValue& named : *list) live.insert(&named.value.node());
  for (auto it = graph.nodes.rbegin(); it != graph.nodes.rend(); ++it)
    if (live.contains(it->get()))
      for (const Var& in : (*it)->inputs) live.insert(&in.node());
  Graph result{{}, graph.outputs, graph.writes};
  for (const auto& node : graph.nodes)
    if (live.contains(node.get())) result.nodes.push_back(node);
  return result;
}

}  // namespace weft
