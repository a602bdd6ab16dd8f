#include "weft/core/transforms/partition.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "weft/core/ir/verify.h"

namespace weft {
namespace {

class GraphPartitioner : public Partitioner {
  using PlacedOutputs = absl::InlinedVector<Placed, 1>;

 public:
  explicit GraphPartitioner(const PartitionOptions& options) : Partitioner(options), natural_(options.natural) {}
  Placed& At(const Var& global) override {
    auto [entry, made] = placed_.try_emplace(&global.node());
    if (made) entry->second = {global.node_ptr(), PlacedOutputs(global.node().outputs.size())};
    return entry->second.outputs[size_t(global.index())];
  }

  LocalProgram Run(const Graph& graph, const std::map<std::string, Sharding>& wanted) {
    std::map<std::string, Sharding> stored;
    placed_.reserve(graph.nodes.size());
    nodes_.reserve(graph.nodes.size());
    for (const auto& node : graph.nodes) {
      Process(node);
      if (node->op == Op::kLeaf) stored[node->attrs.Text("name")] = At(Var(node, 0)).sharding;
    }
    Graph local;
    for (const NamedValue& out : graph.outputs) local.outputs.push_back(Deliver(out, wanted, {}));
    for (const NamedValue& write : graph.writes) local.writes.push_back(Deliver(write, wanted, stored));
    local.nodes = std::move(nodes_);
    local = RemoveDead(local);
    int64_t id = 0;
    for (auto& node : local.nodes) node->id = id++;
    return {std::move(local), mesh(), std::move(inlined_)};
  }

 protected:
  std::shared_ptr<Node> EmitLocal(Op op, Attrs attrs, std::span<const Var> inputs,
                                  absl::InlinedVector<ValueInfo, 1> outputs, const Node& origin) override {
    auto node = std::make_shared<Node>();
    node->op = op;
    node->attrs = std::move(attrs);
    node->inputs.assign(inputs.begin(), inputs.end());
    node->outputs = std::move(outputs);
    node->id = int64_t(nodes_.size());
    node->phase = origin.phase;
    node->scope = origin.scope;
    node->loc = origin.loc;
    nodes_.push_back(node);
    return node;
  }
  void OnFallback(const Node& node) override {
    inlined_.push_back(fmt::format("{} at {} in {}", Name(node.op), ToString(node.loc), node.scope ? *node.scope : ""));
  }

 private:
  NamedValue Deliver(const NamedValue& named, const std::map<std::string, Sharding>& wanted,
                     const std::map<std::string, Sharding>& stored) {
    Asked asked(*this);
    Sharding want = natural_ ? At(named.value).sharding : Sharding(mesh().num_axes());
    if (auto it = wanted.find(named.name); it != wanted.end())
      want = Resolve(it->second, want);
    else if (auto entry = stored.find(named.name); entry != stored.end())
      want = entry->second;
    return {named.name, Whole(named.value, want, named.value.node())};
  }

  struct Entry {
    std::shared_ptr<Node> node;  // keeps the key
    PlacedOutputs outputs;
  };
  absl::node_hash_map<const Node*, Entry> placed_;  // users keep references to entries
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<std::string> inlined_;
  bool natural_;
};

}  // namespace

LocalProgram Partition(const Graph& graph, const PartitionOptions& options) {
  LocalProgram local = GraphPartitioner(options).Run(graph, options.wanted);
  if (VerifiesPasses()) VerifyLocal(local.graph, local.mesh);
  return local;
}

}  // namespace weft
