#include "weft/core/ir/verify.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "absl/container/node_hash_map.h"
#include "weft/core/base/shard.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/record.h"
#include "weft/core/ir/wire.h"

namespace weft {
namespace {

// Values of a local program have the global shape in addition to the chunk shape.
const Shape& GlobalShape(const ValueInfo& info) {
  bool local = info.sharding.num_axes() > 0 || !info.global.empty();
  return local ? info.global : info.shape;
}

std::string TextOf(DType dtype, const Shape& shape) { return fmt::format("{} {}", Name(dtype), ToString(shape)); }

// Ops infer global shapes. So a local operand is replaced by a stand-in node whose shape is the global one.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  void Run() {
    made_.reserve(graph_.nodes.size());
    for (const auto& node : graph_.nodes) {
      CheckOperands(*node);
      const Node& bare = Infer(*node);
      CheckOutputs(*node, bare);
    }
    for (auto* list : {&graph_.outputs, &graph_.writes})
      for (const NamedValue& named : *list)
        WEFT_CHECK(named.value.defined() && made_.contains(&named.value.node()),
                   fmt::format("graph: \"{}\" is not made by it", named.name));
  }

 private:
  void CheckOperands(const Node& node) const {
    for (const Var& in : node.inputs) {
      if (!made_.contains(&in.node()))
        FailAt(node, fmt::format("operand %{} is not made before it is used", in.node().id));
      if (size_t(in.index()) >= in.node().outputs.size())
        FailAt(node, fmt::format("operand %{} has no output {}", in.node().id, in.index()));
    }
    if (node.outputs.empty()) FailAt(node, "has no outputs");
  }

  void CheckOutputs(const Node& node, const Node& bare) const {
    if (bare.outputs.size() != node.outputs.size())
      FailAt(node, fmt::format("has {} outputs, its op has {}", node.outputs.size(), bare.outputs.size()));
    for (size_t i = 0; i < bare.outputs.size(); i++) {
      const ValueInfo &got = node.outputs[i], &want = bare.outputs[i];
      if (got.dtype != want.dtype || GlobalShape(got) != want.shape)
        FailAt(node, fmt::format("output {} is {}, its op infers {}", i, TextOf(got.dtype, GlobalShape(got)),
                                 TextOf(want.dtype, want.shape)));
    }
  }

  // Makes the stand-in of the node, with the outputs that its op infers.
  const Node& Infer(const Node& node) {
    auto [entry, made] = made_.try_emplace(&node);
    Node& bare = entry->second;
    if (!made) return bare;
    bare.op = node.op;
    bare.attrs = node.attrs;
    bare.parameter_chain = node.parameter_chain;
    bare.scope = node.scope;
    bare.loc = node.loc;
    for (const Var& in : node.inputs) bare.inputs.emplace_back(Borrowed(made_.at(&in.node())), in.index());
    if (node.attrs.IntOr("shape_only", 0)) {  // the node provides only the dims of a value, it has no result
      for (const ValueInfo& info : node.outputs) bare.outputs.push_back({info.dtype, GlobalShape(info), {}, {}});
      return bare;
    }
    CheckWire(bare);
    // Collectives change the placement of a value but not the value, so their output has the info of their input.
    if (FindCollectiveRow(node.op))
      bare.outputs.push_back(bare.inputs[0].node().outputs[size_t(bare.inputs[0].index())]);
    else
      Record(node.op).infer(bare);
    return bare;
  }

  // The table owns all stand-ins, so they refer to each other without counts.
  static std::shared_ptr<Node> Borrowed(Node& node) { return {std::shared_ptr<Node>(), &node}; }

  const Graph& graph_;
  absl::node_hash_map<const Node*, Node> made_;
};

}  // namespace

bool VerifiesPasses() {
  static const bool wanted = [] {
    const char* set = std::getenv("WEFT_VERIFY");
    return WEFT_VERIFY_PASSES || (set && std::string_view(set) == "1");
  }();
  return wanted;
}

void Verify(const Graph& graph) { Verifier(graph).Run(); }

void VerifyLocal(const Graph& graph, const MeshShape& mesh) {
  Verify(graph);
  for (const auto& node : graph.nodes)
    for (size_t i = 0; i < node->outputs.size(); i++) {
      const ValueInfo& info = node->outputs[i];
      Shape chunk = ChunkShape(info.global, info.sharding, mesh);
      if (info.shape != chunk)
        FailAt(*node, fmt::format("output {} is {} on a rank, but {} placed {} on {} gives {}", i, ToString(info.shape),
                                  ToString(info.global), ToString(info.sharding), ToString(mesh), ToString(chunk)));
    }
}

}  // namespace weft
