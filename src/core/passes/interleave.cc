#include "weft/core/passes/interleave.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/structural.h"
#include "weft/core/passes/block.h"
#include "weft/core/passes/node_time.h"
#include "weft/core/passes/of_parameters.h"

namespace weft {
namespace {

// How much less urgent each kernel of a part of a batch is than that of the part before it, in the time of a block. In
// step, all parts would wait at the same time. How far apart they do best, and which one first, depends on the model,
// so each lag is tried. A kernel inherits the urgency of what it reads, so lags add up along kernels that nothing else
// waits for: with a negative one, short kernels between a product and a collective run at once.
constexpr double kLags[] = {0.1, 0, 0.2, 0.3, 0.5, -0.1, -0.2, -0.3};

class Interleaver {
 public:
  Interleaver(const LocalProgram& program, double link_time, double lag)
      : program_(program),
        link_time_(link_time),
        lag_(lag),
        of_parameters_(OfParameters(program.graph)),
        items_(program.graph.nodes.size()) {}

  // How long the program takes in the order that Run returned.
  double time() const {
    double end = now_;
    for (const auto& [axis, free] : lanes_) end = std::max(end, free);
    return end;
  }
  bool has_parts() const {
    return std::ranges::any_of(items_, [](const Item& item) { return item.part > 0; });
  }

  LocalProgram Run() {
    Number();
    SetTimes();
    SetUrgency();
    std::vector<int> sources;
    for (int i = 0; i < size(); i++)
      if (moves(i) && items_[size_t(i)].missing == 0) sources.push_back(i);
    for (int i : sources) Ready(i);
    while (!ready_.empty()) Issue(Next());
    LocalProgram ordered = program_;
    for (int i = 0; i < size(); i++) Append(i);  // the rest, in the old order
    for (size_t i = 0; i < order_.size(); i++) ordered.graph.nodes[i] = program_.graph.nodes[size_t(order_[i])];
    return ordered;
  }

 private:
  enum class Kind : uint8_t { kMoves, kOnDemand, kLast };  // kOnDemand: before its first reader
  struct Item {
    Kind kind = Kind::kMoves;
    int part = 0;                      // of a batch: the number of a chunk or of a half
    std::vector<int> inputs, readers;  // that move
    int missing = 0;                   // inputs that have no place yet
    double time = 0, chain = 0, urgency = 0;
    double available = 0;  // when all operands are there
    double end = 0;
    bool placed = false;
  };

  int size() const { return int(items_.size()); }
  const Node& At(int i) const { return *program_.graph.nodes[size_t(i)]; }
  bool moves(int i) const { return items_[size_t(i)].kind == Kind::kMoves; }
  bool is_collective(int i) const { return IsCollective(At(i).op); }

  void Number() {
    for (int i = 0; i < size(); i++) {
      index_[&At(i)] = i;
      if (At(i).phase == Phase::kForward) forward_ids_.insert(At(i).id);
    }
    NumberChunks();
    NumberHalves();
    for (int i = 0; i < size(); i++) {
      Item& item = items_[size_t(i)];
      item.kind = KindOf(i);
      if (item.kind == Kind::kLast) continue;
      item.inputs = MovingInputs(At(i));
      if (item.kind == Kind::kOnDemand) continue;
      for (int in : item.inputs) items_[size_t(in)].readers.push_back(i);
      item.missing = int(item.inputs.size());
    }
  }
  // Chunk gives the chunks of a node the node's id.
  void NumberChunks() {
    absl::flat_hash_map<std::tuple<int64_t, Op, Phase>, int> chunks;
    for (int i = 0; i < size(); i++)
      if (At(i).op != Op::kLeaf) items_[size_t(i)].part = chunks[{At(i).id, At(i).op, At(i).phase}]++;
  }
  // Finds what depends on the later rows of the step's inputs, and not on the first ones.
  void NumberHalves() {
    std::vector<uint8_t> halves(items_.size());  // bits
    for (int i = 0; i < size(); i++) {
      for (const Var& in : At(i).inputs) halves[size_t(i)] |= halves[size_t(index_.at(&in.node()))];
      if (At(i).op == Op::kSlice && At(i).attrs.Int("dim") == 0 && !IsPacked(At(i).attrs) && IsOfInputs(At(i)))
        halves[size_t(i)] |= At(i).attrs.Int("start") > 0 ? 2 : 1;
      if (halves[size_t(i)] == 2) items_[size_t(i)].part++;
    }
  }
  // Whether a value is an input of the step, or is gathered from one.
  static bool IsOfInputs(const Node& node) {
    const Node* source = &node.inputs[0].node();
    while (source->op == Op::kAllGather) source = &source->inputs[0].node();
    return source->op == Op::kLeaf && !source->attrs.IntOr("parameter", 0);
  }
  // Returns the nodes that move and that this one reads, itself or through nodes on demand.
  std::vector<int> MovingInputs(const Node& node) const {
    std::set<int> inputs;
    for (const Var& in : node.inputs) {
      int i = index_.at(&in.node());
      const Item& item = items_[size_t(i)];
      if (item.kind == Kind::kMoves)
        inputs.insert(i);
      else
        inputs.insert(item.inputs.begin(), item.inputs.end());
    }
    return {inputs.begin(), inputs.end()};
  }

  // A node that needs only parameters comes on demand. So does a node that the backward pass computes again, because
  // its operands exist since the forward pass, and a concat, of which the parts may be such nodes.
  Kind KindOf(int i) const {
    const Node& node = At(i);
    bool waits = std::any_of(node.inputs.begin(), node.inputs.end(), [this](const Var& in) {
      return items_[size_t(index_.at(&in.node()))].kind == Kind::kLast;
    });
    if (waits || node.phase == Phase::kOptimizer) return Kind::kLast;
    bool again = node.phase == Phase::kBackward && forward_ids_.contains(node.id);  // Recompute copies the node
    bool joins = node.op == Op::kConcat && IsPacked(node.attrs);
    return node.op == Op::kLeaf || of_parameters_[size_t(i)] || again || joins ? Kind::kOnDemand : Kind::kMoves;
  }

  // A byte of a collective takes `link_time` as long as one in memory, but all of them no longer than all kernels.
  void SetTimes() {
    double kernels = 0, collectives = 0;
    for (int i = 0; i < size(); i++)
      if (moves(i)) (is_collective(i) ? collectives : kernels) += items_[size_t(i)].time = NodeTime(At(i));
    for (int i = 0; i < size(); i++)
      if (moves(i) && is_collective(i) && collectives > 0)
        items_[size_t(i)].time *= std::min(link_time_, kernels / collectives);
  }

  void SetUrgency() {
    for (int i = size() - 1; i >= 0; i--) {
      Item& item = items_[size_t(i)];
      for (int reader : item.readers) item.chain = std::max(item.chain, items_[size_t(reader)].chain);
      item.chain += item.time;
    }
    double slack = TimeOfBlock();
    for (int i = 0; i < size(); i++) {
      Item& item = items_[size_t(i)];
      double latest = std::numeric_limits<double>::infinity();
      for (int in : item.inputs) latest = std::min(latest, items_[size_t(in)].urgency - items_[size_t(in)].time);
      if (LocalFlops(At(i)) > 0) latest -= slack;
      item.urgency = item.inputs.empty() ? item.chain : std::max(item.chain, latest);
      item.urgency -= lag_ * slack * item.part;
    }
  }
  // The time of a block's nodes in one pass, if all blocks take the same.
  double TimeOfBlock() const {
    double longest = 0;
    std::set<std::pair<std::string_view, Phase>> blocks;
    for (int i = 0; i < size(); i++) {
      if (!moves(i)) continue;
      longest = std::max(longest, items_[size_t(i)].chain);
      if (IsInRepeatedBlock(At(i))) blocks.insert({BlockOf(At(i)), At(i).phase});
    }
    return longest / double(std::max<size_t>(blocks.size(), 1));
  }

  // A collective starts at once, because it takes no time of the kernels' stream.
  void Ready(int i) {
    Item& item = items_[size_t(i)];
    for (int in : item.inputs) item.available = std::max(item.available, items_[size_t(in)].end);
    if (!is_collective(i)) return ready_.push_back(i);
    double& free = lanes_[At(i).attrs.Int("axis")];
    item.end = free = std::max({free, now_, item.available}) + item.time;
    Finish(i);
  }

  int Next() const {
    auto later = [this](int i) { return std::max(items_[size_t(i)].available - now_, 0.0); };
    return *std::min_element(ready_.begin(), ready_.end(), [&](int a, int b) {
      if (later(a) != later(b)) return later(a) < later(b);
      double x = items_[size_t(a)].urgency, y = items_[size_t(b)].urgency;
      return x != y ? x > y : a < b;
    });
  }

  void Issue(int i) {
    std::erase(ready_, i);
    Item& item = items_[size_t(i)];
    item.end = now_ = std::max(now_, item.available) + item.time;
    Finish(i);
  }

  void Finish(int i) {
    Append(i);
    for (int reader : items_[size_t(i)].readers)
      if (--items_[size_t(reader)].missing == 0) Ready(reader);
  }

  // Gives a node the next place, after what it needs on demand.
  void Append(int i) {
    if (std::exchange(items_[size_t(i)].placed, true)) return;
    for (const Var& in : At(i).inputs) Append(index_.at(&in.node()));
    order_.push_back(i);
  }

  const LocalProgram& program_;
  double link_time_, lag_;
  absl::flat_hash_map<const Node*, int> index_;
  absl::flat_hash_set<int64_t> forward_ids_;
  std::vector<bool> of_parameters_;
  std::vector<Item> items_;
  std::vector<int> ready_;  // kernels all of whose operands have a place
  std::vector<int> order_;
  std::map<int64_t, double> lanes_;  // per axis: when its last collective ends
  double now_ = 0;                   // when the last kernel ends
};

}  // namespace

LocalProgram Interleave(const LocalProgram& program, double link_time) {
  LocalProgram best;
  double least = 0;
  for (double lag : kLags) {
    Interleaver interleaver(program, link_time, lag);
    LocalProgram ordered = interleaver.Run();
    if (best.graph.nodes.empty() || interleaver.time() < least) {
      best = std::move(ordered);
      least = interleaver.time();
    }
    if (!interleaver.has_parts()) break;  // there is one order
  }
  if (VerifiesPasses()) VerifyLocal(best.graph, best.mesh);
  return best;
}

}  // namespace weft
