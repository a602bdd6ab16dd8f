// KvCache: the keys and values of the tokens that a model has seen, so that a call needs only the new tokens.
//
//   Var past = Leaf("slot.past", DType::kI64, {rows}, batch);        // [B]: how many tokens each row has seen
//   KvCache cache(past, batch, context);
//   Var logits = model.LastLogits(tokens, last);                     // tokens [B, T]: the next ones of each row
//   for (const NamedValue& write : cache.TakeWrites()) WriteEntry(write.name, write.value);
//
// While a KvCache lives, causal attention layers of this thread write the keys and values of the new tokens to entries
// of the State, and attend to these entries. Layers take positions from it. So models need no code for it. The entries
// have names that begin with kCacheEntry; the program's leaves say what they are.
//
// A model that reads a source keeps what attention needs of it, in a program that runs once per source (Keep). Programs
// of new tokens read these entries (Kept).
//
// B rows, T new tokens, S capacity, G key-value heads, D head size.
#pragma once
#include <string>
#include <vector>

#include "weft/core/ir/graph.h"
#include "weft/parallel/nn/module.h"

namespace weft {

inline constexpr const char* kCacheEntry = "cache.";

// Thread-local; the innermost scope applies.
class KvCache {
 public:
  // Row b has seen past[b] tokens; past is i64 [B], placed as `batch`. Entries have room for `capacity` tokens per row.
  // All past[b] + T must be at most `capacity`. Throws Error, with the caller's line, for another `past`.
  KvCache(Var past, const Sharding& batch, int64_t capacity, Loc loc = Loc::current());
  // Makes the cache of a program that reads no new tokens and only calls Keep.
  explicit KvCache(const Sharding& batch);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;
  static KvCache* Current();  // null if there is none

  const Var& past() const { return past_; }
  // Throws Error, with the line of the cache, unless there is room for tokens [B, T].
  void Check(const Var& tokens) const;
  // Returns the positions of `tokens` new tokens per row in their texts, i64 [B, T].
  Var Positions(int64_t tokens) const;
  // Writes x [B, T, G, D] to the entry `name` and returns the whole entry, [B, S, G, D]. `heads` is the placement of G
  // and D, as dims 0 and 1.
  Var Append(const std::string& name, const Var& x, const Sharding& heads);
  // Makes x the whole entry `name`. Its dim 0 is the batch. `heads` is the placement of dims 2 and 3, as in Append.
  void Keep(const std::string& name, const Var& x, const Sharding& heads);
  // Returns the entry that another program has kept. Dtype, shape and heads must be the same there.
  Var Kept(const std::string& name, DType dtype, const Shape& shape, const Sharding& heads) const;
  // Returns the new values of the entries.
  std::vector<NamedValue> TakeWrites() { return std::move(writes_); }

 private:
  Sharding PlacementOf(const Sharding& heads) const;

  Var past_;
  Sharding batch_;
  int64_t capacity_;
  Loc loc_;
  std::vector<NamedValue> writes_;
  KvCache* outer_;
};

}  // namespace weft
