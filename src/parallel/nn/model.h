// Model: a module with a loss. The families of models (decoders, encoders) are files in models/.
//
// B batch, T tokens, V vocabulary.
#pragma once
#include <span>
#include <vector>

#include "weft/core/ops/loss.h"
#include "weft/parallel/nn/module.h"

namespace weft {

// The sum of the losses of all targets that are not ignored, and the number of these targets. The sum is divided once,
// by the count of the global batch.
struct Loss {
  Var sum, count;
};

// Returns the loss of logits [B, T, V] with targets [B, T]. Ignored targets (CrossEntropyOptions) add neither to the
// sum nor to the count.
Loss LossOfLogits(Var logits, Var targets, const CrossEntropyOptions& options);

// Returns the gradients of loss.sum with respect to Parameter::Source of each parameter. Sums over tokens are formed in
// precision.reduce (GradOptions::parameter_sums). A seed multiplies the gradients. Requires the ModelScope of the
// model.
std::vector<Var> Grad(const Loss& loss, std::span<const Parameter* const> parameters, Var seed = {});

// A call with tokens [B, T] returns logits [B, T, V].
class Model : public Layer {
 public:
  // Returns the loss of tokens [B, T] with targets [B, T]. Ignored targets (CrossEntropyOptions) add neither to the sum
  // nor to the count.
  virtual Loss LossOf(Var tokens, Var targets, const CrossEntropyOptions& options = {});
  // Returns the logits [R, N, V] of some tokens only. `places` [R, N] are indices into the B x T tokens.
  virtual Var LogitsAt(Var tokens, Var places) = 0;
  // Returns the logits [B, 1, V] of token last[b] of each row. `last` is i64 [B]. A model whose layers know KvCache
  // overrides it. Throws Error under a KvCache if the model does not.
  virtual Var LastLogits(Var tokens, Var last);
  // Reads the sources of rows under a KvCache, so that later calls of LastLogits, in other programs, need only tokens
  // of targets. `tokens` [B, S + 1] are the sources and the tokens with which the targets begin. Throws Error if rows
  // of the model have no source.
  virtual void KeepSource(Var tokens);
  // Whether the parameter is only a table from which rows are looked up, so that no product reads it.
  virtual bool OnlyLooksUp(const Parameter&) const { return false; }
  // Returns the FLOPs per token of attention among `tokens` tokens, forward and backward. No parameter takes part in
  // them.
  virtual double AttentionFlops(int64_t tokens) const = 0;
};

}  // namespace weft
