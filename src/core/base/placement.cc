#include "weft/core/base/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/base/error.h"

namespace weft {

const char* Name(ReduceOp op) { return op == ReduceOp::kSum ? "sum" : op == ReduceOp::kMax ? "max" : "min"; }

std::string ToString(const Placement& p) {
  switch (p.kind) {
    case Placement::kShard:
      return fmt::format("S({})", p.dim);
    case Placement::kPartial:
      return fmt::format("P({})", Name(p.reduce));
    case Placement::kKeep:
      return "keep";
    default:
      return "R";
  }
}

Sharding::Sharding(std::span<const Placement> placements) : Sharding(int(placements.size())) {
  WEFT_CHECK(placements.size() <= size_t(kMaxAxes),
             fmt::format("sharding: expected at most {} axes, got {}", kMaxAxes, placements.size()));
  AxisList by_order(placements.size());
  for (size_t i = 0; i < placements.size(); i++) by_order[i] = int(i);
  auto key = [&](int axis) {
    int8_t order = placements[size_t(axis)].order;
    return order < 0 ? kMaxAxes : int(order);
  };
  std::stable_sort(by_order.begin(), by_order.end(), [&](int a, int b) { return key(a) < key(b); });
  for (int axis : by_order) Set(axis, placements[size_t(axis)]);
}

void Sharding::Set(int axis, Placement placement) {
  Placement& slot = axes_[size_t(axis)];
  if (slot.kind == Placement::kShard) {
    for (Placement& other : axes_)
      if (other.kind == Placement::kShard && other.dim == slot.dim && other.order > slot.order) other.order--;
  }
  slot = {};
  if (placement.kind == Placement::kShard)
    placement.order = int8_t(DimAxes(placement.dim).size());
  else {
    placement.order = -1;
    placement.dim = 0;
  }
  if (placement.kind != Placement::kPartial) placement.reduce = ReduceOp::kSum;
  slot = placement;
}

AxisList Sharding::DimAxes(int dim) const {
  std::array<int, kMaxAxes> by_order{};
  size_t count = 0;
  for (int i = 0; i < num_axes_; i++) {
    const Placement& p = axes_[size_t(i)];
    if (p.kind != Placement::kShard || p.dim != dim) continue;
    size_t order = static_cast<unsigned char>(p.order);
    by_order[order] = i;
    count++;
  }
  return AxisList(by_order.begin(), by_order.begin() + count);
}

bool Sharding::HasPartial() const {
  return std::any_of(axes_.begin(), axes_.end(), [](const Placement& p) { return p.kind == Placement::kPartial; });
}
bool Sharding::operator==(const Sharding& other) const {
  if (num_axes_ != other.num_axes_) return false;
  for (int i = 0; i < num_axes_; i++) {
    const Placement &a = axes_[size_t(i)], &b = other.axes_[size_t(i)];
    if (a.kind != b.kind) return false;
    if (a.kind == Placement::kShard && (a.dim != b.dim || a.order != b.order)) return false;
    if (a.kind == Placement::kPartial && a.reduce != b.reduce) return false;
  }
  return true;
}

std::string ToString(const Sharding& s) {
  std::string text = "(";
  for (int i = 0; i < s.num_axes(); i++) {
    if (i) text += ", ";
    text += ToString(s[i]);
    if (s[i].kind != Placement::kShard) continue;
    AxisList axes = s.DimAxes(s[i].dim);
    if (!std::is_sorted(axes.begin(), axes.end())) text += fmt::format("#{}", s[i].order);
  }
  return text + ")";
}

Sharding Dual(const Sharding& sharding) {
  Sharding dual = sharding;
  for (int i = 0; i < dual.num_axes(); i++)
    if (dual[i].kind == Placement::kPartial) dual.Set(i, Replicate());
  return dual;
}

}  // namespace weft
