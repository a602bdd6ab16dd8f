#include "weft/parallel/nn/layers/packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "weft/core/host/rounding.h"
#include "weft/core/ops/ops.h"

namespace weft::nn {
namespace {

constexpr int64_t kMostPlaces = std::numeric_limits<int32_t>::max();
constexpr int64_t kSizes = 32, kAlignment = 8;  // tensor cores take multiples of 8 elements of 16 bits

void CheckSizes(int64_t batch, int64_t tokens, int64_t groups) {
  WEFT_CHECK(batch > 0 && tokens > 0 && groups > 0 && batch % groups == 0,
             fmt::format("packing: expected groups that divide the sequences of a batch, got {} groups of {} sequences "
                         "of {} tokens; add sequences of length 0, or choose another number of groups",
                         groups, batch, tokens));
  WEFT_CHECK(batch / groups <= kMostPlaces / tokens,
             fmt::format("packing: expected fewer than 2^31 tokens in a group, got {} sequences of {} tokens in {} "
                         "groups; use more groups",
                         batch, tokens, groups));
}

// The real tokens of each group, in order, as places: b T + t.
using Groups = std::vector<std::vector<int32_t>>;

template <class IsReal>
Groups RealTokens(int64_t batch, int64_t tokens, int64_t groups, IsReal&& is_real) {
  CheckSizes(batch, tokens, groups);
  Groups all{size_t(groups)};
  int64_t of_group = batch / groups;
  for (int64_t b = 0; b < batch; b++)
    for (int64_t t = 0; t < tokens; t++)
      if (is_real(b, t)) all[size_t(b / of_group)].push_back(int32_t(b % of_group * tokens + t));
  return all;
}

void CheckLengths(std::span<const int64_t> lengths, int64_t tokens) {
  for (size_t b = 0; b < lengths.size(); b++)
    WEFT_CHECK(
        lengths[b] >= 0 && lengths[b] <= tokens,
        fmt::format("packing: expected lengths from 0 to {} tokens, got {} for sequence {}", tokens, lengths[b], b));
}

int64_t SlotsFor(int64_t most, int64_t all) {
  int64_t step = RoundUp(CeilDiv(all, kSizes), kAlignment);
  return std::min(all, std::max(step, RoundUp(most, step)));
}
int64_t Most(const Groups& groups) {
  size_t most = 0;
  for (const auto& group : groups) most = std::max(most, group.size());
  return int64_t(most);
}

Tensor PlacesOf(const Groups& groups, int64_t all, int64_t slots) {
  int64_t most = Most(groups);
  if (slots == 0) slots = SlotsFor(most, all);
  WEFT_CHECK(slots >= most, fmt::format("packing: expected at least {} slots, because a group has so many real tokens, "
                                        "got {}; take the largest PackedSlots of all ranks",
                                        most, slots));
  WEFT_CHECK(slots <= kMostPlaces, fmt::format("packing: expected at most {} slots, because a place has 32 bits, got "
                                               "{}; PackedSlots returns how many are needed",
                                               kMostPlaces, slots));
  std::vector<double> places;
  places.reserve(groups.size() * size_t(slots));
  for (const auto& group : groups) {
    places.insert(places.end(), group.begin(), group.end());
    places.insert(places.end(), size_t(slots) - group.size(), -1);
  }
  return Tensor::FromDoubles(places, DType::kI32, {int64_t(groups.size()), slots});
}

// Repeats ids [G, n] along the further dims of x [G, m, ...]: [G, n, ...]. Kernels read a repeated id once more, and no
// copies are made.
Var IdsFor(const Var& x, Var ids, const Loc& loc) {
  for (int d = 2; d < x.rank(); d++) ids = Broadcast(ids, d, x.dim(d), loc);
  return ids;
}

}  // namespace

int64_t PackedSlots(std::span<const int64_t> lengths, int64_t tokens, int64_t groups) {
  int64_t batch = int64_t(lengths.size()), most = 0;
  CheckSizes(batch, tokens, groups);
  CheckLengths(lengths, tokens);
  for (int64_t g = 0; g < groups; g++) {
    int64_t real = 0;
    for (int64_t b = 0; b < batch / groups; b++) real += lengths[size_t(g * (batch / groups) + b)];
    most = std::max(most, real);
  }
  return SlotsFor(most, batch / groups * tokens);
}

Tensor PackedPlaces(std::span<const int64_t> lengths, int64_t tokens, const PackingOptions& options) {
  CheckLengths(lengths, tokens);
  int64_t batch = int64_t(lengths.size());
  Groups real = RealTokens(batch, tokens, options.groups, [&](int64_t b, int64_t t) { return t < lengths[size_t(b)]; });
  return PlacesOf(real, batch / options.groups * tokens, options.slots);
}

Tensor PackedPlaces(const Tensor& padding, const PackingOptions& options) {
  bool fits = padding.defined() && padding.dtype() == DType::kBool && padding.shape().size() == 2;
  WEFT_CHECK(fits && padding.device().kind == DeviceKind::kCpu,
             fmt::format("packing: expected padding of bool [B, T] on the host, got {}",
                         padding.defined() ? Name(padding.dtype()) + (" " + ToString(padding.shape())) : "nothing"));
  int64_t batch = padding.shape()[0], tokens = padding.shape()[1];
  const auto* ignored = padding.as<uint8_t>();
  Groups real =
      RealTokens(batch, tokens, options.groups, [&](int64_t b, int64_t t) { return !ignored[b * tokens + t]; });
  return PlacesOf(real, batch / options.groups * tokens, options.slots);
}

Packing::Packing(Var places, int64_t batch, int64_t tokens, Loc loc) : batch_(batch), tokens_(tokens) {
  bool integers = places.dtype() == DType::kI32 || places.dtype() == DType::kI64;
  WEFT_CHECK(integers && places.rank() == 2 && tokens > 0 && batch > 0 && places.dim(0) > 0 && places.dim(1) > 0 &&
                 batch % places.dim(0) == 0,
             fmt::format("Packing at {}: expected places of i32 or i64 [G, N] with G that divides the {} sequences of "
                         "{} tokens, got {} {}; PackedPlaces makes them",
                         ToString(loc), batch, tokens, Name(places.dtype()), ToString(places.shape())));
  places_ = Cast({places, loc}, DType::kI64);  // [G, N]
  Shape slots = places_.shape(), all{slots[0], batch / slots[0] * tokens};
  // An empty slot has the sequence floor(-1 / T) = -1.
  segments_ = FloorDivide({places_, loc}, Full(double(tokens), DType::kI64, slots, loc));                // [G, N]
  slots_ = Scatter(Full(-1, DType::kI64, all, loc), places_, Iota(1, DType::kI64, slots, loc), 1, loc);  // [G, B/G T]
}

Var Packing::Pack(Var x, Loc loc) const {
  WEFT_CHECK(x.rank() >= 2 && x.dim(0) == batch_ && x.dim(1) == tokens_,
             fmt::format("Packing::Pack at {}: expected a batch [{}, {}, ...], got {}", ToString(loc), batch_, tokens_,
                         ToString(x.shape())));
  Var groups = Merge(Split(x, 0, batch_ / this->groups(), loc), 1, loc);  // [G, B/G T, ...]
  return GatherInvertible(groups, IdsFor(groups, places_, loc), IdsFor(groups, slots_, loc), 1, loc);  // [G, N, ...]
}

Var Packing::Unpack(Var rows, Loc loc) const {
  WEFT_CHECK(rows.rank() >= 2 && Shape(rows.shape().begin(), rows.shape().begin() + 2) == places_.shape(),
             fmt::format("Packing::Unpack at {}: expected rows [{}, {}, ...], got {}", ToString(loc), places_.dim(0),
                         places_.dim(1), ToString(rows.shape())));
  Var tokens =
      GatherInvertible(rows, IdsFor(rows, slots_, loc), IdsFor(rows, places_, loc), 1, loc);  // [G, B/G T, ...]
  return Merge(Split(tokens, 1, tokens_, loc), 0, loc);                                       // [B, T, ...]
}

Var Packing::Positions(Loc loc) const {
  Var of_tokens = Remainder({places_, loc}, Full(double(tokens_), DType::kI64, places_.shape(), loc));  // [G, N]
  Var zeros = Full(0, DType::kI64, places_.shape(), loc);                                               // [G, N]
  return Select({Ge({places_, loc}, {zeros, loc}), loc}, {of_tokens, loc}, {zeros, loc});               // [G, N]
}

}  // namespace weft::nn
