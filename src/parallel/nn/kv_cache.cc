#include "weft/parallel/nn/kv_cache.h"

#include <fmt/format.h>

#include <utility>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {
thread_local KvCache* current = nullptr;
}  // namespace

KvCache::KvCache(Var past, const Sharding& batch, int64_t capacity, Loc loc)
    : past_(std::move(past)), batch_(batch), capacity_(capacity), loc_(loc), outer_(current) {
  CheckAssigned(past_, "kv_cache", loc);
  WEFT_CHECK(past_.dtype() == DType::kI64 && past_.rank() == 1,
             fmt::format("kv_cache at {}: expected the lengths of all rows as i64 [B], got {}; cast or unsqueeze them",
                         ToString(loc), ToString(past_)));
  current = this;
}
KvCache::KvCache(const Sharding& batch) : batch_(batch), capacity_(0), loc_(Loc::current()), outer_(current) {
  current = this;
}
KvCache::~KvCache() { current = outer_; }
KvCache* KvCache::Current() { return current; }

void KvCache::Check(const Var& tokens) const {
  WEFT_CHECK(tokens.dim(0) == past_.dim(0) && tokens.dim(1) <= capacity_,
             fmt::format("kv_cache at {}: expected at most {} new tokens in each of {} rows, got {}; shorten them, or "
                         "give the cache more room",
                         ToString(loc_), capacity_, past_.dim(0), ToString(tokens)));
}

Var KvCache::Positions(int64_t tokens) const {
  return Broadcast(past_, 1, tokens) + Iota(1, DType::kI64, {past_.dim(0), tokens});  // [B, T]
}

Sharding KvCache::PlacementOf(const Sharding& heads) const {
  Sharding placement = batch_;
  for (int axis = 0; axis < heads.num_axes(); axis++)
    if (heads[axis].kind == Placement::kShard) placement.Set(axis, Shard(heads[axis].dim + 2));
  return placement;
}

Var KvCache::Append(const std::string& name, const Var& x, const Sharding& heads) {
  Var before = Kept(name, x.dtype(), {x.dim(0), capacity_, x.dim(2), x.dim(3)}, heads);  // [B, S, G, D]
  Var after = DynamicUpdate(before, x, past_, 1);                                        // [B, S, G, D]
  writes_.push_back({kCacheEntry + name, after});
  return after;
}

void KvCache::Keep(const std::string& name, const Var& x, const Sharding& heads) {
  Kept(name, x.dtype(), x.shape(), heads);  // the leaf says in which placement the entry is stored
  writes_.push_back({kCacheEntry + name, x});
}

Var KvCache::Kept(const std::string& name, DType dtype, const Shape& shape, const Sharding& heads) const {
  return Leaf(kCacheEntry + name, dtype, shape, PlacementOf(heads));
}

}  // namespace weft
