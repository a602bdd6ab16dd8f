#include "weft/core/compile/plan.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "weft/core/compile/arena.h"
#include "weft/core/compile/plan_values.h"
#include "weft/core/ir/collective_row.h"

namespace weft {
namespace {

class Planner {
 public:
  Planner(const LocalProgram& program, const Runtime& runtime)
      : graph_(program.graph), runtime_(runtime), values_(program.graph, runtime) {}

  Plan Run() {
    plan_.steps.reserve(graph_.nodes.size());
    PlaceWritesInPlace();
    for (size_t i = 0; i < graph_.nodes.size(); i++) PlanNode(int(i));
    Finish();
    PlaceBlocks();
    return std::move(plan_);
  }

 private:
  void PlaceWritesInPlace() {
    absl::flat_hash_map<std::string, std::vector<int>> leaves_of;  // several leaves may read one entry
    for (const PlanValue& value : values_.all())
      if (value.node->op == Op::kLeaf) leaves_of[value.node->attrs.Text("name")].push_back(value.root);
    for (const NamedValue& write : graph_.writes) {
      int id = values_.IdOf(write.value);
      PlanValue& made = values_.at(id);
      if (made.root != id || made.place.kind != Place::kNone) continue;
      const std::vector<int>& leaves = leaves_of[write.name];
      if (!std::all_of(leaves.begin(), leaves.end(), [&](int leaf) { return MayOverwrite(leaf, made); })) continue;
      made.place = {Place::kEntry, 0, write.name};
    }
  }
  bool InPlace(const Node& node, int output) const {
    const KernelRow& row = runtime_.kernels().Row(node.op);
    return row.in_place && output < row.in_place_outputs;
  }
  // Whether nothing reads the old value after the step that makes the new one. At that step itself, only a kernel that
  // works in place may read it.
  bool MayOverwrite(int old, const PlanValue& made) const {
    if (values_.at(old).last_use < made.step) return true;
    if (values_.at(old).last_use > made.step) return false;
    return InPlace(*made.node, made.index) && OnlyOperand(*made.node, made.index, old);
  }
  // Whether no operand of the node but the k-th is in the storage of the value `root`.
  bool OnlyOperand(const Node& node, int k, int root) const {
    for (int other = 0; other < int(node.inputs.size()); other++)
      if (other != k && values_.At(node.inputs[size_t(other)]).root == root) return false;
    return true;
  }

  // Puts a result of an in-place kernel on the operand of the same number. That is possible if nothing reads the
  // operand after this step, and no other operand of this step shares its storage. Returns whether it did.
  bool TakeOver(PlanValue& made, int i) {
    const Node& node = *made.node;
    if (made.index >= int(node.inputs.size()) || !InPlace(node, made.index)) return false;
    const PlanValue& operand = values_.At(node.inputs[size_t(made.index)]);
    const PlanValue& old = values_.at(operand.root);
    if (old.place.kind != Place::kArena || old.last_use != i || freed_[operand.root]) return false;
    if (!OnlyOperand(node, made.index, operand.root)) return false;
    bool same =
        old.bytes() == made.bytes() && operand.view.dtype == made.view.dtype && operand.view.rank == made.view.rank;
    for (int d = 0; same && d < made.view.rank; d++) same = operand.view.dim(d).stride == made.view.dim(d).stride;
    if (!same) return false;
    made.place = old.place;
    freed_[operand.root] = true;  // the result owns its bytes now
    return true;
  }

  // Gives a result of node i its bytes, unless it has them. A part of a joined value gives all of that its bytes.
  void PlaceResult(int id, int i) {
    PlanValue &value = values_.at(id), &root = values_.at(value.root);
    if (root.place.kind != Place::kNone) return;
    if (value.root == id && TakeOver(value, i)) return;
    root.place = {Place::kArena, Allocate(root.bytes()), ""};
  }

  void PlanNode(int i) {
    const std::shared_ptr<Node>& node = graph_.nodes[size_t(i)];
    if (node->op == Op::kLeaf) plan_.leaves.push_back(node);
    if (values_.NeedsNoStep(*node)) return FreeInputs(*node, i);
    TakeBack(*node, i);
    Step step{node, {}, {}};
    step.in.reserve(node->inputs.size());
    step.out.reserve(node->outputs.size());
    int first = values_.IdOf(*node, 0), end = first + int(node->outputs.size());
    for (int id = first; id < end; id++) {
      PlaceResult(id, i);
      step.out.push_back(values_.ViewOf(id));
    }
    for (const Var& in : node->inputs) step.in.push_back(values_.ViewOf(in));
    lender_ = GoesOn(*node) ? Lender{node.get(), bucket_} : Lender();
    PlanWorkspace(step);
    bool joins = MayJoin(runtime_.kernels().Row(node->op), step);
    plan_.steps.push_back(std::move(step));
    for (int id = first; id < end; id++) FreeIfDead(values_.at(id).root, i);
    holds_ = !lender_.node && IsCollective(node->op) && joins;
    FreeInputs(*node, i);
    lender_ = {};
    holds_ = false;
  }

  // Whether a step is a collective that runs at the same time as the steps after it.
  bool GoesOn(const Node& node) const { return IsCollective(node.op) && runtime_.Overlaps(); }

  // Memory that a collective reads last is kept until a kernel reads the result or the second bucket after its own
  // begins. A step that took the memory earlier would have to wait for the collective. Only buckets of the same axis
  // count, which run one after the other. One of less than half the bytes counts the less: it is over sooner.
  void TakeBack(const Node& node, int i) {
    bool begins = GoesOn(node) && (plan_.steps.empty() || !InOneBucket(*plan_.steps.back().node, node));
    if (begins) bucket_ = {node.attrs.Int("axis"), BucketBytes(i)};
    std::erase_if(lent_, [&](Lent& lent) {
      if (begins && lent.bucket.axis == bucket_.axis)
        lent.later += std::min(1.0, 2 * double(bucket_.bytes) / double(std::max<size_t>(lent.bucket.bytes, 1)));
      bool over = lent.first_kernel <= i || lent.later > 1.99;  // a sum of shares rounds
      if (over) blocks_.Release(lent.block);
      return over;
    });
  }
  static bool InOneBucket(const Node& a, const Node& b) {
    return a.op == b.op && a.attrs.Int("axis") == b.attrs.Int("axis");
  }
  // Returns how many bytes the collectives read or write that begin with node i.
  size_t BucketBytes(int i) const {
    const Node& first = *graph_.nodes[size_t(i)];
    size_t bytes = 0;
    for (; i < int(graph_.nodes.size()); i++) {
      const Node& node = *graph_.nodes[size_t(i)];
      if (values_.NeedsNoStep(node)) continue;
      if (!InOneBucket(first, node)) break;
      bytes += std::max(values_.At(node.inputs[0]).bytes(), values_.at(values_.IdOf(node, 0)).bytes());
    }
    return bytes;
  }
  // Collectives that run at the same time as later steps, and one after the other.
  struct Bucket {
    int64_t axis = 0;
    size_t bytes = 0;  // that they read or write
  };
  // A collective that lends its memory, as it runs at the same time as later steps.
  struct Lender {
    const Node* node = nullptr;  // null: none
    Bucket bucket;
  };
  void Release(size_t block, const Lender& lender) {
    if (!lender.node) return blocks_.Release(block);
    lent_.push_back({block, lender.bucket, values_.at(values_.IdOf(*lender.node, 0)).first_kernel});
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
    for (const Var& in : node.inputs) FreeIfDead(values_.At(in).root, i);
  }
  void FreeIfDead(int root, int i) {
    const PlanValue& value = values_.at(root);
    if (value.place.kind != Place::kArena || value.last_use > i || freed_[root]) return;
    freed_[root] = true;
    // If the next collective could take this memory, it would depend on the rank's layout whether both join, and all
    // ranks must join the same ones.
    if (holds_)
      held_.push_back({value.place.offset, {}});
    else
      Release(value.place.offset, lender_);
  }

  // An output may be the old value of an entry that the program writes. Then it is copied out before the stores.
  PlannedView KeepOld(const Var& out) {
    PlannedView view = values_.ViewOf(out);
    bool written = std::any_of(graph_.writes.begin(), graph_.writes.end(),
                               [&](const NamedValue& w) { return w.name == view.place.entry; });
    if (values_.RootOf(out).node->op != Op::kLeaf || !written) return view;
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
      PlannedView from = values_.ViewOf(write.value);
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
  PlanValues values_;
  absl::flat_hash_map<int, bool> freed_;
  struct Held {
    size_t block;
    Lender lender;
  };
  std::vector<Held> held_;  // workspaces of the latest steps that share one op, and what such collectives read last
  struct Lent {
    size_t block;
    Bucket bucket;
    int first_kernel;
    double later = 0;  // buckets that have begun since
  };
  std::vector<Lent> lent_;
  Bucket bucket_;          // the latest
  Lender lender_;          // the collective being planned, if it lends its memory
  bool holds_ = false;     // the operands being freed are of a collective that may join the next ones
  size_t workspaces_ = 0;  // total bytes of the workspaces in held_
};

}  // namespace

Plan MakePlan(const LocalProgram& program, const Runtime& runtime) { return Planner(program, runtime).Run(); }

bool MayJoin(const KernelRow& row, const Step& step) {
  bool product = step.node->op == Op::kEinsum || step.node->op == Op::kLinear;
  return row.run_many && (!product || step.workspace_bytes == 0);
}

}  // namespace weft
