#include "weft/core/compile/plan.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "weft/core/compile/arena.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/passes/parts.h"

namespace weft {
namespace {

class Planner {
 public:
  Planner(const LocalProgram& program, const Runtime& runtime) : graph_(program.graph), runtime_(runtime) {}

  Plan Run() {
    NumberValues();
    FindStridedBroadcasts();
    parts_ = FindParts(graph_, runtime_.kernels());
    FindRoots();
    FindLastUses();
    PlaceWritesInPlace();
    for (size_t i = 0; i < graph_.nodes.size(); i++) PlanNode(int(i));
    Finish();
    PlaceBlocks();
    return std::move(plan_);
  }

 private:
  struct Value {
    const Node* node = nullptr;
    int step = 0;                                     // position of the node that makes it
    int root = 0;                                     // the value that owns its storage
    int first_use = std::numeric_limits<int>::max();  // root values only: position of the first reader
    int last_use = 0;                                 // root values only: position of the last reader
    Place place;                                      // root values only
    TensorView view;
    size_t within = 0;  // bytes from the start of the root's storage
  };

  int IdOf(const Var& v) const { return first_.at(&v.node()) + v.index(); }
  const ValueInfo& InfoOf(const Value& value, int index) const { return value.node->outputs[size_t(index)]; }

  void NumberValues() {
    size_t count = 0;
    for (const auto& node : graph_.nodes) count += node->outputs.size();
    first_.reserve(graph_.nodes.size());
    values_.reserve(count);  // values are large: moving them as the vector grew took a third of MakePlan
    plan_.steps.reserve(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); i++) {
      const Node& node = *graph_.nodes[i];
      first_[&node] = int(values_.size());
      for (size_t k = 0; k < node.outputs.size(); k++) {
        Value& value = values_.emplace_back(Value{&node, int(i), int(values_.size())});
        value.view = runtime_.View(node.outputs[k], nullptr);
      }
    }
  }

  // A broadcast is a view with stride 0 if every reader accepts one.
  void FindStridedBroadcasts() {
    absl::flat_hash_map<const Node*, bool> strided;
    for (const auto& node : graph_.nodes)
      if (node->op == Op::kBroadcast) strided[node.get()] = true;
    for (auto* list : {&graph_.outputs, &graph_.writes})
      for (const NamedValue& named : *list)
        if (auto it = strided.find(&named.value.node()); it != strided.end()) it->second = false;
    for (auto it = graph_.nodes.rbegin(); it != graph_.nodes.rend(); ++it) {
      const Node& reader = **it;
      auto own = strided.find(&reader);
      bool accepts = own != strided.end() ? own->second
                                          : !IsAlias(reader) && runtime_.kernels().Has(reader.op) &&
                                                runtime_.kernels().Row(reader.op).any_strides;
      if (accepts) continue;
      for (const Var& in : reader.inputs)
        if (auto b = strided.find(&in.node()); b != strided.end()) b->second = false;
    }
    for (auto& [node, yes] : strided)
      if (yes) strided_.insert({node, true});
  }

  // Whether the node's operands are written where its result is.
  bool IsJoined(const Node& node) const { return parts_.joins.contains(&node); }
  bool IsView(const Node& node) const {
    return IsAlias(node) || strided_.contains(&node) || parts_.slices.contains(&node);
  }

  // Makes `part` a view of `whole`, from element `start` of dim `dim` on.
  void MakePart(Value& part, const Value& whole, int dim, int64_t start) {
    part.root = whole.root;
    part.within = whole.within + size_t(start * whole.view.dim(dim).stride) * SizeOf(part.view.dtype);
    for (int d = 0; d < part.view.rank; d++) part.view.dims[size_t(d)].stride = whole.view.dim(d).stride;
  }
  void MakeParts(const Value& whole) {
    int64_t start = 0;
    int dim = int(whole.node->attrs.Int("dim"));
    for (const Var& in : whole.node->inputs) {
      MakePart(values_[size_t(IdOf(in))], whole, dim, start);
      start += in.dim(dim);
    }
  }

  void FindRoots() {
    for (Value& value : values_)
      if (IsJoined(*value.node)) MakeParts(value);
    FindViews();
    for (const auto& [result, slice] : parts_.over)
      MakePart(values_[size_t(first_.at(result.first) + result.second)], values_[size_t(IdOf(slice))], 0, 0);
  }
  void FindViews() {
    for (Value& value : values_) {
      if (!IsView(*value.node)) continue;
      const Value& source = values_[size_t(IdOf(value.node->inputs[0]))];
      if (value.node->op == Op::kSlice) {
        MakePart(value, source, int(value.node->attrs.Int("dim")), value.node->attrs.Int("packed"));
        continue;
      }
      value.root = source.root;
      value.within = source.within;
      if (IsAlias(*value.node)) continue;
      // All dims keep their strides, and the new one has stride 0.
      int dim = int(value.node->attrs.Int("dim"));
      for (int d = 0; d < value.view.rank; d++)
        value.view.dims[size_t(d)].stride = d == dim ? 0 : source.view.dim(d < dim ? d : d - 1).stride;
    }
  }

  void FindLastUses() {
    for (size_t i = 0; i < graph_.nodes.size(); i++)
      for (const Var& in : graph_.nodes[i]->inputs) {
        Value& root = RootOf(in);
        if (!IsView(*graph_.nodes[i]) && !IsJoined(*graph_.nodes[i])) root.first_use = std::min(root.first_use, int(i));
        root.last_use = int(i);
      }
    for (auto* list : {&graph_.outputs, &graph_.writes})
      for (const NamedValue& named : *list) RootOf(named.value).last_use = int(graph_.nodes.size());
    for (Value& value : values_) {
      value.last_use = std::max(value.last_use, value.step);
      if (value.node->op == Op::kLeaf) value.place = {Place::kEntry, 0, value.node->attrs.Text("name")};
    }
  }
  Value& RootOf(const Var& v) { return values_[size_t(values_[size_t(IdOf(v))].root)]; }

  void PlaceWritesInPlace() {
    absl::flat_hash_map<std::string, std::vector<int>> leaves_of;  // several leaves may read one entry
    for (const Value& value : values_)
      if (value.node->op == Op::kLeaf) leaves_of[value.node->attrs.Text("name")].push_back(value.root);
    for (const NamedValue& write : graph_.writes) {
      Value& made = values_[size_t(IdOf(write.value))];
      if (made.root != IdOf(write.value) || made.place.kind != Place::kNone) continue;
      const std::vector<int>& leaves = leaves_of[write.name];
      if (!std::all_of(leaves.begin(), leaves.end(),
                       [&](int leaf) { return MayOverwrite(values_[size_t(leaf)], made, write.value.index()); }))
        continue;
      made.place = {Place::kEntry, 0, write.name};
    }
  }
  bool InPlace(const Node& node, int output) const {
    const KernelRow& row = runtime_.kernels().Row(node.op);
    return row.in_place && output < row.in_place_outputs;
  }
  // Whether nothing reads the old value after the step that makes the new one. At that step itself, only a kernel that
  // works in place may read it.
  bool MayOverwrite(const Value& old, const Value& made, int output) const {
    if (old.last_use < made.step) return true;
    if (old.last_use > made.step) return false;
    const Node& node = *made.node;
    if (!InPlace(node, output)) return false;
    for (size_t k = 0; k < node.inputs.size(); k++) {
      const Value& in = values_[size_t(IdOf(node.inputs[k]))];
      if (&values_[size_t(in.root)] == &old && int(k) != output) return false;
    }
    return true;
  }

  PlannedView ViewOf(int id) const {
    const Value& value = values_[size_t(id)];
    return {values_[size_t(value.root)].place, value.view, value.within};
  }

  // Puts result k of an in-place kernel on operand k. That is possible if nothing reads the operand after this step,
  // and no other operand of this step shares its storage. Returns whether it did.
  bool TakeOver(Value& made, size_t k, int i) {
    const Node& node = *made.node;
    if (k >= node.inputs.size() || !InPlace(node, int(k))) return false;
    const Value& operand = values_[size_t(IdOf(node.inputs[k]))];
    const Value& old = values_[size_t(operand.root)];
    if (old.place.kind != Place::kArena || old.last_use != i || freed_[operand.root]) return false;
    for (size_t other = 0; other < node.inputs.size(); other++)
      if (other != k && values_[size_t(IdOf(node.inputs[other]))].root == operand.root) return false;
    bool same = BytesOf(InfoOf(old, operand.root - first_.at(old.node))) == BytesOf(InfoOf(made, int(k))) &&
                operand.view.dtype == made.view.dtype && operand.view.rank == made.view.rank;
    for (int d = 0; same && d < made.view.rank; d++) same = operand.view.dim(d).stride == made.view.dim(d).stride;
    if (!same) return false;
    made.place = old.place;
    freed_[operand.root] = true;  // the result owns its bytes now
    return true;
  }

  // Gives result k of node i its bytes, unless it has them. A part of a joined value gives all of that its bytes.
  void PlaceResult(int id, size_t k, int i) {
    Value &value = values_[size_t(id)], &root = values_[size_t(value.root)];
    if (root.place.kind != Place::kNone) return;
    if (value.root == id && TakeOver(value, k, i)) return;
    root.place = {Place::kArena, Allocate(BytesOf(InfoOf(root, value.root - first_.at(root.node)))), ""};
  }

  void PlanNode(int i) {
    const std::shared_ptr<Node>& node = graph_.nodes[size_t(i)];
    if (node->op == Op::kLeaf) plan_.leaves.push_back(node);
    if (node->op == Op::kLeaf || IsShapeOnly(*node) || IsView(*node) || IsJoined(*node)) return FreeInputs(*node, i);
    TakeBack(*node, i);
    Step step{node, {}, {}};
    step.in.reserve(node->inputs.size());
    step.out.reserve(node->outputs.size());
    for (size_t k = 0; k < node->outputs.size(); k++) {
      int id = first_.at(node.get()) + int(k);
      PlaceResult(id, k, i);
      step.out.push_back(ViewOf(id));
    }
    for (const Var& in : node->inputs) step.in.push_back(ViewOf(IdOf(in)));
    lender_ = GoesOn(*node) ? node.get() : nullptr;
    PlanWorkspace(step);
    bool joins = MayJoin(runtime_.kernels().Row(node->op), step);
    plan_.steps.push_back(std::move(step));
    for (size_t k = 0; k < node->outputs.size(); k++) FreeIfDead(values_[size_t(first_.at(node.get())) + k].root, i);
    holds_ = !lender_ && IsCollective(node->op) && joins;
    FreeInputs(*node, i);
    lender_ = nullptr;
    holds_ = false;
  }

  // Whether a step is a collective that runs at the same time as the steps after it.
  bool GoesOn(const Node& node) const { return IsCollective(node.op) && runtime_.Overlaps(); }

  // Memory that a collective reads last is kept until the result is read or the second bucket after its own begins. A
  // step that took the memory earlier would have to wait for the collective.
  void TakeBack(const Node& node, int i) {
    bool begins = GoesOn(node) && (plan_.steps.empty() || plan_.steps.back().node->op != node.op);
    if (begins) bucket_++;
    std::erase_if(lent_, [&](const Lent& lent) {
      bool over = lent.first_reader <= i || lent.bucket + 2 <= bucket_;
      if (over) blocks_.Release(lent.block);
      return over;
    });
  }
  void Release(size_t block, const Node* lender) {
    if (!lender) return blocks_.Release(block);
    lent_.push_back({block, bucket_, values_[size_t(first_.at(lender))].first_use});
  }

  void PlanWorkspace(Step& step) {
    const KernelRow& row = runtime_.kernels().Row(step.node->op);
    if (!plan_.steps.empty() && plan_.steps.back().node->op != step.node->op) ReleaseHeld();
    if (!row.workspace) return;
    std::vector<TensorView> in, out;
    for (const PlannedView& v : step.in) in.push_back(v.view);
    for (const PlannedView& v : step.out) out.push_back(v.view);
    step.workspace_bytes = row.workspace(CallOf(*step.node, in, out, runtime_));
    if (!step.workspace_bytes) return;
    workspaces_ += step.workspace_bytes;
    step.workspace_offset = Allocate(step.workspace_bytes);
    held_.push_back({step.workspace_offset, lender_});
    if (!MayJoin(row, step)) ReleaseHeld();  // else the following steps may run at the same time
  }

  void ReleaseHeld() {
    for (const auto& [block, lender] : held_) Release(block, lender);
    held_.clear();
    workspaces_ = 0;
  }

  // Returns the number of a block. It stands for the offset until PlaceBlocks.
  size_t Allocate(size_t bytes) {
    requests_.push_back({plan_.steps.size(), workspaces_});
    return blocks_.Request(bytes);
  }
  void PlaceBlocks() {
    ArenaBlocks::Layout layout = blocks_.Place();
    auto place = [&](PlannedView& v) {
      if (v.place.kind == Place::kArena) v.place.offset = layout.offsets[v.place.offset] + v.within;
    };
    for (Step& step : plan_.steps) {
      for (PlannedView& v : step.in) place(v);
      for (PlannedView& v : step.out) place(v);
      if (step.workspace_bytes) step.workspace_offset = layout.offsets[step.workspace_offset];
    }
    for (auto& [name, output] : plan_.outputs) place(output);
    for (Copy& copy : plan_.copies) place(copy.from), place(copy.to);
    plan_.arena_bytes = layout.bytes;
    if (requests_.empty()) return;
    plan_.fullest = requests_[layout.fullest].step;
    plan_.workspace_bytes = requests_[layout.fullest].workspaces;
  }

  void FreeInputs(const Node& node, int i) {
    for (const Var& in : node.inputs) FreeIfDead(values_[size_t(IdOf(in))].root, i);
  }
  void FreeIfDead(int root, int i) {
    Value& value = values_[size_t(root)];
    if (value.place.kind != Place::kArena || value.last_use > i || freed_[root]) return;
    freed_[root] = true;
    // If the next collective could take this memory, it would depend on the rank's layout whether both join, and all
    // ranks must join the same ones.
    if (holds_)
      held_.push_back({value.place.offset, nullptr});
    else
      Release(value.place.offset, lender_);
  }

  // An output may be the old value of an entry that the program writes. Then it is copied out before the stores.
  PlannedView KeepOld(const Var& out) {
    PlannedView view = ViewOf(IdOf(out));
    bool written = std::any_of(graph_.writes.begin(), graph_.writes.end(),
                               [&](const NamedValue& w) { return w.name == view.place.entry; });
    if (RootOf(out).node->op != Op::kLeaf || !written) return view;
    PlannedView kept = view;
    size_t bytes = BytesOf(out.node().outputs[size_t(out.index())]);
    kept.place = {Place::kArena, Allocate(bytes), ""};
    plan_.copies.push_back({view, kept, bytes});
    return kept;
  }

  // Writes that could not be made in place are copied at the end. A source that is itself an entry is staged first.
  void Finish() {
    for (const NamedValue& out : graph_.outputs) plan_.outputs.emplace_back(out.name, KeepOld(out.value));
    std::vector<Copy> stores;
    for (const NamedValue& write : graph_.writes) {
      PlannedView from = ViewOf(IdOf(write.value));
      if (from.place.kind == Place::kEntry && from.place.entry == write.name) continue;
      size_t bytes = BytesOf(write.value.node().outputs[size_t(write.value.index())]);
      if (from.place.kind == Place::kEntry) {
        PlannedView staged = from;
        staged.place = {Place::kArena, Allocate(bytes), ""};
        plan_.copies.push_back({from, staged, bytes});
        from = staged;
      }
      PlannedView to = from;
      to.place = {Place::kEntry, 0, write.name};
      stores.push_back({from, to, bytes});
    }
    plan_.copies.insert(plan_.copies.end(), stores.begin(), stores.end());
  }

  const Graph& graph_;
  const Runtime& runtime_;
  Plan plan_;
  ArenaBlocks blocks_;
  struct Requested {
    size_t step, workspaces;
  };
  std::vector<Requested> requests_;  // per block
  std::vector<Value> values_;
  absl::flat_hash_map<const Node*, int> first_;
  absl::flat_hash_map<const Node*, bool> strided_;
  Parts parts_;
  absl::flat_hash_map<int, bool> freed_;
  struct Held {
    size_t block;
    const Node* lender;
  };
  std::vector<Held> held_;  // workspaces of the latest steps that share one op, and what such collectives read last
  struct Lent {
    size_t block;
    int bucket, first_reader;
  };
  std::vector<Lent> lent_;
  int bucket_ = 0;                // the latest bucket of collectives that run at the same time as later steps
  const Node* lender_ = nullptr;  // the collective being planned, if it runs at the same time as later steps
  bool holds_ = false;            // the operands being freed are of a collective that may join the next ones
  size_t workspaces_ = 0;         // total bytes of the workspaces in held_
};

}  // namespace

Plan MakePlan(const LocalProgram& program, const Runtime& runtime) { return Planner(program, runtime).Run(); }

bool MayJoin(const KernelRow& row, const Step& step) {
  bool product = step.node->op == Op::kEinsum || step.node->op == Op::kLinear;
  return row.run_many && (!product || step.workspace_bytes == 0);
}

}  // namespace weft
