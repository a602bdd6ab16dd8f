// Scaled dot product attention, with memory linear in the sequence lengths, and its gradient.
//
//   Var y = Sdpa(q, k, v, {.causal = true, .left = 1023});              // a sliding window of 1024 tokens
//   Var y = Sdpa(q, k, v, {.mask = AttendMask(seen), .softcap = 50});   // seen: bool [B, 1, T, S], true = may attend
//   SdpaBackends allowed({SdpaBackend::kFlash});                        // for the calls that follow
#pragma once
#include <cstdint>

#include "weft/core/ir/node.h"
#include "weft/core/ops/sdpa_backends.h"

namespace weft {

// A boolean mask that is true where a query may attend to a key, as in PyTorch's scaled_dot_product_attention.
// PyTorch's nn.Transformer and nn.MultiheadAttention use the opposite meaning; IgnoreMask is the type of that. One does
// not convert to the other by itself.
class AttendMask {
 public:
  AttendMask() = default;
  explicit AttendMask(Var may_attend) : var_(std::move(may_attend)) {}
  bool defined() const { return var_.defined(); }
  const Var& var() const { return var_; }

 private:
  Var var_;
};
// A boolean mask that is true where a key is ignored.
class IgnoreMask {
 public:
  IgnoreMask() = default;
  explicit IgnoreMask(Var ignored) : var_(std::move(ignored)) {}
  bool defined() const { return var_.defined(); }
  const Var& var() const { return var_; }
  AttendMask Attend(Loc loc = Loc::current()) const;  // Not(ignored)

 private:
  Var var_;
};

// A score is scale * dot(q, k), then softcap * tanh(score / softcap), then score + bias. A query sees a key if all of
// these allow it: causal, the window, mask, segments and lengths. Query i stands at the position
// p = i + causal_offset + offsets[b] among the keys. i and j are global indices.
struct SdpaOptions {
  bool causal = true;         // key j is seen only if j <= p
  int64_t causal_offset = 0;  // keys before the first query; S - T aligns the mask to the bottom right
  double scale = 0;           // 0: 1 / sqrt(D)
  // The window: key j is seen only if p - left <= j <= p + right. -1: no bound on that side. A causal mask bounds the
  // right side by 0.
  int64_t left = -1, right = -1;
  double softcap = 0;    // 0: none
  double dropout = 0;    // of probabilities, in the training phase; see random.h. The element is [b, h, i, j].
  AttendMask mask{};     // bool [B, H, T, S]; each of B, H and T may be 1
  Var bias{};            // the dtype of q, [B, H, T, S]; each of B, H and T may be 1. It has a gradient.
  Var sinks{};           // the dtype of q, [H]: a score that each query head adds to the softmax, without a value
  Var offsets{};         // i64 [B]: added to causal_offset per sequence
  Var query_segments{};  // i64 [B, T], and key_segments i64 [B, S]: a query sees the keys of its own segment;
  Var key_segments{};    // the segment -1 sees nothing and is seen by nothing
  Var lengths{};         // i64 [B]: key j is seen only if j < lengths[b]
};

// Sdpa      (q [B, T, H, D], k [B, S, G, D], v [B, S, G, E], then the operands that the attributes name)
//           -> out [B, T, H, E], lse [B, T, H].
//           lse is the log-sum-exp of the scores, in the accumulate type. Kernels never materialise the scores.
//           H = G * group, and query head h uses KV head h / group. These are *global* head indices, because H and G
//           may be sharded differently: use dim(2).offset and .global.
//           A row that sees no key gives out 0, lse -inf and gradients 0, never NaN. With sinks, its lse is the sink.
// SdpaGrad  (q, k, v, out, lse, dout, the same further operands); the same attributes
//           -> dq, dk, dv, then dsinks and dbias if there are sinks and a bias.
//           dk and dv are sums over the query heads that this rank holds.
//
// Attributes: causal, causal_offset, scale; and only if they are used: left, right, softcap, p and key (dropout), and
// the flags mask, bias, sinks, offsets, lengths, segments, which name operands in this order. `segments` names two
// operands. Dropout's step and first_row (random.h) come last. `backends` is the set of SdpaBackends::Current(), if a
// scope is open.
//
// Throws Error, with the user's line, for operands and options that do not fit together.
Var Sdpa(Var q, Var k, Var v, const SdpaOptions& options, Loc loc = Loc::current());

// The positions of an Sdpa's further operands; -1 for those that it does not have. `first` is the number of operands
// before them: 3, or 6 for SdpaGrad.
struct SdpaOperands {
  int mask = -1, bias = -1, sinks = -1, offsets = -1, lengths = -1, segments = -1, random = -1;
  int count = 0;  // of all operands
  SdpaOperands(const Attrs& attrs, int first);

  // Returns the value of an operand's integers with which the last query sees all keys that the rules allow.
  int64_t Integer(int operand, const Attrs& attrs, int64_t queries, int64_t keys) const;
};

}  // namespace weft
