#include "weft/core/transforms/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/host/rounding.h"

namespace weft {
namespace {

using Labels = std::string;
bool Contains(const Labels& labels, char l) { return labels.find(l) != Labels::npos; }

class Chooser {
 public:
  Chooser(const Node& node, const Dims& dims, std::span<const Sharding> have, std::span<const bool> flexible,
          const MeshShape& mesh)
      : node_(node), dims_(dims), have_(have), flexible_(flexible), mesh_(mesh) {}

  NodeSharding Run() {
    for (int axis = 0; axis < mesh_.num_axes(); axis++) {
      chosen_[size_t(axis)] = ChooseLabel(axis);
      keeps_[size_t(axis)] = !chosen_[size_t(axis)] && KeepsPartial(axis);
    }
    for (char label : AllChosen()) orders_.push_back({label, OrderOf(label)});
    for (Order& order : orders_) CutToGroups(order);
    return Result();
  }

 private:
  struct Order {
    char label;
    AxisList axes;         // major first
    size_t coincides = 0;  // groups: how many axes, from the major one, shard `outer` at the same boundaries
  };

  const Dims::Group* GroupOfMerged(char l) const {
    for (const auto& g : dims_.groups)
      if (g.merged == l) return &g;
    return nullptr;
  }
  const Dims::Group* GroupOfOuter(char l) const {
    for (const auto& g : dims_.groups)
      if (g.outer == l) return &g;
    return nullptr;
  }

  int64_t Extent(char label) const {
    for (size_t k = 0; k < dims_.in.size(); k++)
      if (size_t d = dims_.in[k].find(label); d != Labels::npos) return node_.inputs[k].shape()[d];
    for (size_t k = 0; k < dims_.out.size(); k++)
      if (size_t d = dims_.out[k].find(label); d != Labels::npos) return node_.outputs[k].shape[d];
    return 1;
  }

  // Whether the boundaries of the chunks of `merged` on these axes are boundaries of chunks of `outer`.
  bool Coincides(const Dims::Group& group, const AxisList& axes) const {
    int64_t outer = Extent(group.outer), merged = outer * group.inner;
    for (int axis : axes) {
      int64_t k = mesh_.sizes[size_t(axis)];
      merged = CeilDiv(merged, k);
      outer = CeilDiv(outer, k);
      if (merged != outer * group.inner) return false;
    }
    return true;
  }

  // Returns the label that operand k proposes for the axis, or 0 for none.
  char Proposal(size_t k, int axis) const {
    const Placement& p = have_[k][axis];
    if (p.kind != Placement::kShard) return 0;
    char label = dims_.in[k][size_t(p.dim)];
    if (Contains(dims_.blocked, label)) return 0;
    if (const Dims::Group* group = GroupOfOuter(label)) {
      if (!Coincides(*group, have_[k].DimAxes(p.dim))) return 0;
      return group->merged;
    }
    if (const Dims::Group* group = GroupOfMerged(label);
        group && group->exact && !Coincides(*group, have_[k].DimAxes(p.dim)))
      return 0;
    return label;
  }

  char ChooseLabel(int axis) const {
    for (bool flexible : {false, true}) {
      char label = 0;
      size_t from = 0;
      for (size_t k = 0; k < have_.size(); k++) {
        if (flexible_[k] != flexible) continue;
        char proposal = Proposal(k, axis);
        if (!proposal || proposal == label) continue;
        if (label) {
          if (flexible) continue;
          Conflict(axis, from, k);
        }
        label = proposal;
        from = k;
      }
      if (label) return label;
    }
    return 0;
  }

  [[noreturn]] void Conflict(int axis, size_t a, size_t b) const {
    FailAt(node_, fmt::format("operand {} {} is {} on axis \"{}\" but operand {} {} is {}; reshard one of them", a,
                              ToString(node_.inputs[a].shape()), ToString(have_[a][axis]), mesh_.names[size_t(axis)], b,
                              ToString(node_.inputs[b].shape()), ToString(have_[b][axis])));
  }

  // A sum over ranks passes through only if all operands are such a sum and the bytes do not grow. In a chain of
  // parameters the bytes may grow, so that gradients are reduced in the wider type.
  bool KeepsPartial(int axis) const {
    if (dims_.linear != Linear::kJoint || have_.empty()) return false;
    double in = 0, out = 0;
    for (size_t k = 0; k < have_.size(); k++) {
      const Placement& p = have_[k][axis];
      if (p.kind != Placement::kPartial || p.reduce != ReduceOp::kSum) return false;
      in += double(NumElements(node_.inputs[k].shape())) * double(SizeOf(node_.inputs[k].dtype()));
    }
    for (const ValueInfo& o : node_.outputs) out += double(NumElements(o.shape)) * double(SizeOf(o.dtype));
    return out <= in || node_.attrs.IntOr("parameter_gradient", 0);
  }

  std::string AllChosen() const {
    std::string labels;
    for (char l : chosen_)
      if (l && !Contains(labels, l)) labels += l;
    return labels;
  }

  // The first operand that holds several of the label's axes fixes their order. If none does, the first operand that
  // holds one puts it first. The other axes follow by axis number.
  AxisList OrderOf(char label) const {
    AxisList axes, best;
    for (int a = 0; a < mesh_.num_axes(); a++)
      if (chosen_[size_t(a)] == label) axes.push_back(a);
    for (bool flexible : {false, true})
      for (size_t k = 0; k < have_.size() && best.size() < 2; k++) {
        if (flexible_[k] != flexible) continue;
        AxisList mine = AxesHeldAs(k, label);
        if (mine.size() > best.size()) best = mine;
      }
    for (int a : axes)
      if (std::find(best.begin(), best.end(), a) == best.end()) best.push_back(a);
    return best;
  }
  AxisList AxesHeldAs(size_t k, char label) const {
    AxisList held;
    for (size_t d = 0; d < dims_.in[k].size(); d++) {
      char l = dims_.in[k][d];
      const Dims::Group* group = GroupOfOuter(l);
      if (l != label && !(group && group->merged == label)) continue;
      for (int a : have_[k].DimAxes(int(d)))
        if (chosen_[size_t(a)] == label) held.push_back(a);
    }
    return held;
  }

  void CutToGroups(Order& order) {
    const Dims::Group* group = GroupOfMerged(order.label);
    if (!group) return;
    AxisList prefix;
    for (int a : order.axes) {
      prefix.push_back(a);
      if (!Coincides(*group, prefix)) break;
      order.coincides++;
    }
    if (group->exact) order.axes.resize(order.coincides);
  }

  // Returns the sharding of these labels: dim by dim, with each dim's axes in the label's order.
  Sharding Layout(const Labels& labels, bool result) const {
    Sharding s(mesh_.num_axes());
    for (size_t d = 0; d < labels.size(); d++) {
      for (const Order& order : orders_) {
        const Dims::Group* group = GroupOfOuter(labels[d]);
        bool is_outer = group && group->merged == order.label;
        if (labels[d] != order.label && !is_outer) continue;
        size_t count = is_outer ? order.coincides : order.axes.size();
        for (size_t i = 0; i < count; i++) s.Set(order.axes[i], Shard(int(d)));
      }
    }
    for (int a = 0; a < mesh_.num_axes(); a++) {
      if (s[a].kind == Placement::kShard) continue;
      if (keeps_[size_t(a)])
        s.Set(a, Partial());
      else if (result && IsUsed(a))
        s.Set(a, Partial(dims_.reduce));
    }
    return s;
  }
  // Whether a label uses the axis. An exact group may have dropped it.
  bool IsUsed(int axis) const {
    for (const Order& order : orders_)
      if (std::find(order.axes.begin(), order.axes.end(), axis) != order.axes.end()) return true;
    return false;
  }

  NodeSharding Result() const {
    NodeSharding result;
    for (const Labels& labels : dims_.in) result.in.push_back(Layout(labels, false));
    for (const Labels& labels : dims_.out) result.out.push_back(Layout(labels, true));
    for (const Order& order : orders_)
      result.needs_fallback |= !order.axes.empty() && Contains(dims_.whole, order.label);
    return result;
  }

  const Node& node_;
  const Dims& dims_;
  std::span<const Sharding> have_;
  std::span<const bool> flexible_;
  const MeshShape& mesh_;
  std::array<char, kMaxAxes> chosen_{};
  std::array<bool, kMaxAxes> keeps_{};
  absl::InlinedVector<Order, 2> orders_;
};

bool IsPrefix(const AxisList& a, const AxisList& of) {
  return a.size() <= of.size() && std::equal(a.begin(), a.end(), of.begin());
}

class TransitionPlanner {
 public:
  TransitionPlanner(const Sharding& have, const Sharding& want) : cur_(have), want_(want) {}

  std::vector<Transition> Run() {
    while (!(cur_ == want_)) {
      bool moved = Slice() || Scatter() || Exchange() || Reduce() || Gather() || Mask();
      WEFT_CHECK(moved, fmt::format("reshard: no step leads from {} to {}", ToString(cur_), ToString(want_)));
    }
    return std::move(steps_);
  }

 private:
  // Whether the axis may be appended to its wanted dim now: exactly the axes major to it are there.
  bool Ready(int axis) const {
    const Placement& w = want_[axis];
    if (w.kind != Placement::kShard) return false;
    AxisList now = cur_.DimAxes(w.dim), goal = want_.DimAxes(w.dim);
    return IsPrefix(now, goal) && now.size() < goal.size() && goal[now.size()] == axis;
  }
  bool Innermost(int axis) const { return cur_.DimAxes(cur_[axis].dim).back() == axis; }
  bool Stays(int axis) const {
    const Placement &c = cur_[axis], &w = want_[axis];
    if (w.kind != Placement::kShard || w.dim != c.dim) return false;
    AxisList now = cur_.DimAxes(c.dim), goal = want_.DimAxes(c.dim);
    for (size_t i = 0; i < now.size() && i < goal.size() && now[i] == goal[i]; i++)
      if (now[i] == axis) return true;
    return false;
  }

  bool Step(Transition t, Placement to) {
    cur_.Set(t.axis, to);
    t.after = cur_;
    steps_.push_back(t);
    return true;
  }

  bool Slice() {
    for (int a = 0; a < cur_.num_axes(); a++)
      if (cur_[a].kind == Placement::kReplicate && Ready(a))
        return Step({Op::kLocalSlice, a, want_[a].dim}, Shard(want_[a].dim));
    return false;
  }
  bool Scatter() {
    for (int a = 0; a < cur_.num_axes(); a++)
      if (cur_[a].kind == Placement::kPartial && Ready(a))
        return Step({Op::kReduceScatter, a, want_[a].dim, 0, cur_[a].reduce}, Shard(want_[a].dim));
    return false;
  }
  bool Exchange() {
    for (int a = 0; a < cur_.num_axes(); a++)
      if (cur_[a].kind == Placement::kShard && !Stays(a) && Innermost(a) && Ready(a) && cur_[a].dim != want_[a].dim)
        return Step({Op::kAllToAll, a, cur_[a].dim, want_[a].dim}, Shard(want_[a].dim));
    return false;
  }
  bool Reduce() {
    for (int a = 0; a < cur_.num_axes(); a++)
      if (cur_[a].kind == Placement::kPartial && want_[a].kind == Placement::kReplicate)
        return Step({Op::kAllReduce, a, 0, 0, cur_[a].reduce}, Replicate());
    return false;
  }
  bool Gather() {
    for (int a = cur_.num_axes() - 1; a >= 0; a--)
      if (cur_[a].kind == Placement::kShard && !Stays(a) && Innermost(a))
        return Step({Op::kAllGather, a, cur_[a].dim}, Replicate());
    return false;
  }
  bool Mask() {
    for (int a = 0; a < cur_.num_axes(); a++)
      if (cur_[a].kind == Placement::kReplicate && want_[a].kind == Placement::kPartial)
        return Step({Op::kMaskPartial, a, 0, 0, want_[a].reduce}, want_[a]);
    for (int a = 0; a < cur_.num_axes(); a++)
      if (cur_[a].kind == Placement::kPartial && want_[a].kind == Placement::kPartial &&
          cur_[a].reduce != want_[a].reduce)
        Fail(fmt::format("reshard: {} cannot become {}; two kinds of Partial never mix", ToString(cur_),
                         ToString(want_)));
    return false;
  }

  Sharding cur_;
  const Sharding& want_;
  std::vector<Transition> steps_;
};

}  // namespace

NodeSharding ChooseSharding(const Node& node, const Dims& dims, std::span<const Sharding> have,
                            std::span<const bool> flexible, const MeshShape& mesh) {
  return Chooser(node, dims, have, flexible, mesh).Run();
}

std::vector<Transition> PlanTransitions(const Sharding& have, const Sharding& want) {
  return TransitionPlanner(have, want).Run();
}

}  // namespace weft
