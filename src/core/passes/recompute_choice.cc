// A choice for one block is a cut of a graph that has two nodes for each of the block's values: `in`, whether it is
// computed again, and `out`, whether the backward pass has it. (So do PyTorch's min-cut partitioner and Chen et al.,
// "Training Deep Nets with Sublinear Memory Cost", 2016, who keep every k-th block.)
//
//   source -> in    the time to compute it again
//   in -> out       its bytes, which are kept otherwise
//   out -> in       of a value that it is computed from, which the backward pass then needs too: uncuttable
//   out -> sink     if the backward pass reads it: uncuttable
#include "weft/core/passes/recompute_choice.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/storage.h"
#include "weft/core/passes/block.h"
#include "weft/core/passes/min_cut.h"
#include "weft/core/passes/node_time.h"

namespace weft {
namespace {

using NodeSet = absl::flat_hash_set<const Node*>;

// Bytes and times (NodeTime) are counted in KiB, so that products of two fit into 64 bits.
constexpr double kUnit = 1024, kMemoryPerWire = 16;
// So much larger than a price of 1 that the other one only decides between equal ones.
constexpr int64_t kDecides = int64_t(1) << 24;

struct Item {
  const Node* node;
  int64_t bytes = 0, time = 0;  // bytes are 0 for a view, which is never kept by itself
  bool once = false;            // products, attention and collectives
  bool read_backward = false;
};

int64_t Units(double x) { return std::max<int64_t>(int64_t(std::ceil(x / kUnit)), 1); }

Item ItemOf(const Node& node) {
  Item item{.node = &node};
  if (IsAlias(node)) return item;
  double out = 0;
  for (const ValueInfo& y : node.outputs) out += double(BytesOf(y));
  item.once = LocalFlops(node) > 0 || IsCollective(node.op);
  item.bytes = Units(out);
  item.time = Units(NodeTime(node) * (IsCollective(node.op) ? kMemoryPerWire : 1));
  return item;
}

// A choice and what it costs.
struct Choice {
  std::vector<bool> again;  // per item
  int64_t bytes = 0, time = 0;
};

// The values of one block that may be computed again.
class Block {
 public:
  void Add(const Item& item) {
    index_[item.node] = int(items_.size());
    items_.push_back(item);
  }
  // Items are added in order, so each one's operands come before it. An operand that is no item is kept anyway.
  Choice Cheapest(int64_t byte_price, int64_t time_price, bool may_repeat_products) const {
    int source = 2 * int(items_.size()), sink = source + 1;
    FlowGraph flow(sink + 1);
    for (int i = 0; i < int(items_.size()); i++) {
      const Item& item = items_[size_t(i)];
      int in = 2 * i, out = in + 1;
      bool fixed = item.once && !may_repeat_products;
      flow.Add(source, in, fixed ? FlowGraph::kUncuttable : item.time * time_price);
      flow.Add(in, out, item.bytes ? item.bytes * byte_price : FlowGraph::kUncuttable);
      if (item.read_backward) flow.Add(out, sink, FlowGraph::kUncuttable);
      for (const Var& x : item.node->inputs)
        if (auto it = index_.find(&x.node()); it != index_.end())
          flow.Add(2 * it->second + 1, in, FlowGraph::kUncuttable);
    }
    return ChoiceOf(flow.Cut(source, sink));
  }
  // Returns choices from the fastest to the smallest. Each is the cheapest one for some price of a byte.
  std::vector<Choice> Ladder() const {
    std::vector<Choice> ladder{Cheapest(1, kDecides, true)};
    Climb(ladder.front(), Cheapest(kDecides, 1, true), ladder);
    return ladder;
  }
  void Take(const Choice& choice, NodeSet& again) const {
    for (size_t i = 0; i < items_.size(); i++)
      if (choice.again[i]) again.insert(items_[i].node);
  }

 private:
  Choice ChoiceOf(const std::vector<bool>& with_source) const {
    Choice choice;
    for (size_t i = 0; i < items_.size(); i++) {
      bool in = with_source[2 * i], out = with_source[2 * i + 1];
      choice.again.push_back(!in);
      if (!in) choice.time += items_[i].time;
      if (in && !out) choice.bytes += items_[i].bytes;
    }
    return choice;
  }
  // Appends the choices between two, and the second. Where the costs of a byte and of time weigh the two equally,
  // either another choice is cheaper, or there is none between them.
  void Climb(const Choice& fast, const Choice& small, std::vector<Choice>& ladder) const {
    if (small.bytes >= fast.bytes) return;
    int64_t byte_price = small.time - fast.time, time_price = fast.bytes - small.bytes;
    auto cost = [&](const Choice& c) { return c.bytes * byte_price + c.time * time_price; };
    Choice middle = Cheapest(byte_price, time_price, true);
    if (cost(middle) >= cost(fast)) return ladder.push_back(small);
    Climb(fast, middle, ladder);
    Climb(middle, small, ladder);
  }

  std::vector<Item> items_;
  absl::flat_hash_map<const Node*, int> index_;
};

// Finds the nodes that may be computed again, by block.
class Candidates {
 public:
  explicit Candidates(const Graph& graph) {
    for (auto* list : {&graph.outputs, &graph.writes})
      for (const NamedValue& named : *list) kept_.insert(&named.value.node());
    for (const auto& node : graph.nodes) Read(*node);
    for (const auto& node : graph.nodes) {
      if (!MayRepeat(*node)) continue;
      Item item = ItemOf(*node);
      item.read_backward = read_backward_.contains(node.get());
      auto [at, is_new] = index_.try_emplace(BlockOf(*node), blocks_.size());
      if (is_new) blocks_.emplace_back();
      blocks_[at->second].Add(item);
      all_.insert(node.get());
    }
  }
  const NodeSet& All() const { return all_; }
  const std::vector<Block>& blocks() const { return blocks_; }

 private:
  void Read(const Node& reader) {
    bool from_parameters = !reader.inputs.empty();
    for (const Var& x : reader.inputs) {
      const Node& node = x.node();
      from_parameters = from_parameters && parameters_.contains(&node);
      if (reader.phase != Phase::kForward)
        read_backward_.insert(&node);
      else if (BlockOf(reader) != BlockOf(node))
        kept_.insert(&node);
    }
    bool parameter = reader.op == Op::kLeaf && reader.attrs.IntOr("parameter", 0);
    if (parameter || from_parameters) parameters_.insert(&reader);
  }
  bool MayRepeat(const Node& node) const {
    return node.op != Op::kLeaf && node.phase == Phase::kForward && IsInRepeatedBlock(node) && !IsShapeOnly(node) &&
           !kept_.contains(&node) && !parameters_.contains(&node);
  }

  NodeSet kept_, read_backward_, parameters_, all_;
  std::vector<Block> blocks_;  // in the order of the forward pass
  absl::flat_hash_map<std::string_view, size_t> index_;
};

// Goes up the ladders of all blocks, one rung at a time, block by block.
NodeSet ByShare(const Candidates& candidates, double share) {
  std::vector<std::pair<const Block*, std::vector<Choice>>> ladders;
  size_t rungs = 0, most = 0;
  for (const Block& block : candidates.blocks()) {
    ladders.push_back({&block, block.Ladder()});
    rungs += ladders.back().second.size() - 1;
    most = std::max(most, ladders.back().second.size());
  }
  auto left = size_t(std::lround(std::clamp(share, 0.0, 1.0) * double(rungs)));
  std::vector<size_t> at(ladders.size());
  for (size_t rung = 1; rung < most; rung++)
    for (size_t b = 0; b < ladders.size() && left > 0; b++)
      if (rung < ladders[b].second.size()) at[b] = rung, left--;
  NodeSet again;
  for (size_t b = 0; b < ladders.size(); b++) ladders[b].first->Take(ladders[b].second[at[b]], again);
  return again;
}

}  // namespace

absl::flat_hash_set<const Node*> RecomputeChoice(const Graph& graph, const RecomputeOptions& options) {
  Candidates candidates(graph);
  switch (options.mode) {
    case RecomputeMode::kNone:
      return {};
    case RecomputeMode::kFull:
      return candidates.All();
    case RecomputeMode::kBudget:
      return ByShare(candidates, options.share);
    case RecomputeMode::kSelective:
      NodeSet again;
      for (const Block& block : candidates.blocks()) block.Take(block.Cheapest(kDecides, 1, false), again);
      return again;
  }
  return {};
}

}  // namespace weft
