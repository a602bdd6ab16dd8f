#include "weft/core/ir/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string_view>

#include "absl/container/flat_hash_map.h"
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

// Ops infer global shapes. So an operand that is only a part of a value is replaced by a stand-in node whose shape is
// the global one.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) { made_.reserve(graph.nodes.size()); }

  void Run() {
    for (const auto& node : graph_.nodes) {
      CheckOperands(*node);
      CheckOutputs(*node);
      made_[node.get()] = IsWhole(*node) ? node : StandIn(*node);
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

  void CheckOutputs(const Node& node) {
    if (node.attrs.IntOr("shape_only", 0)) return;  // the node provides only the dims of a value, it has no result
    std::span<const ValueInfo> want = Inferred(node);
    if (want.size() != node.outputs.size())
      FailAt(node, fmt::format("has {} outputs, its op has {}", node.outputs.size(), want.size()));
    for (size_t i = 0; i < want.size(); i++) {
      const ValueInfo& got = node.outputs[i];
      if (got.dtype != want[i].dtype || GlobalShape(got) != want[i].shape)
        FailAt(node, fmt::format("output {} is {}, its op infers {}", i, TextOf(got.dtype, GlobalShape(got)),
                                 TextOf(want[i].dtype, want[i].shape)));
    }
  }

  // Collectives change the placement of a value but not the value, so their output has the info of their input. With a
  // wire the sums of narrow terms may have a wider type. The result is valid until the next call.
  std::span<const ValueInfo> Inferred(const Node& node) {
    bare_.op = node.op;
    bare_.attrs = node.attrs;
    bare_.scope = node.scope;
    bare_.loc = node.loc;
    bare_.inputs.clear();
    bare_.outputs.clear();
    for (const Var& in : node.inputs) bare_.inputs.emplace_back(made_.at(&in.node()), in.index());
    CheckWire(bare_);
    if (!FindCollectiveRow(node.op)) {
      Record(node.op).infer(bare_);
      return bare_.outputs;
    }
    bare_.outputs.push_back(bare_.inputs[0].node().outputs[size_t(bare_.inputs[0].index())]);
    DType& sums = bare_.outputs[0].dtype;
    if (WireOf(node.attrs) && node.outputs[0].dtype != sums) sums = AccumulateType(sums);
    return bare_.outputs;
  }

  static bool IsWhole(const Node& node) {
    return std::ranges::all_of(node.outputs, [](const ValueInfo& info) { return GlobalShape(info) == info.shape; });
  }
  static std::shared_ptr<Node> StandIn(const Node& node) {
    auto stands_for = std::make_shared<Node>();
    stands_for->op = node.op;
    stands_for->parameter_chain = node.parameter_chain;
    for (const ValueInfo& info : node.outputs) stands_for->outputs.push_back({info.dtype, GlobalShape(info), {}, {}});
    return stands_for;
  }

  const Graph& graph_;
  absl::flat_hash_map<const Node*, std::shared_ptr<Node>> made_;
  Node bare_;  // the node that is checked, without its results
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
