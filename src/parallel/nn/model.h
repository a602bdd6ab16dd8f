// Model: a module with a loss. A decoder, an encoder or another shape of model is a file in models/.
//
// B batch, T tokens, V vocabulary.
#pragma once
#include "weft/core/ops/loss.h"
#include "weft/parallel/nn/module.h"

namespace weft {

// Sum of the losses of all targets that count, and their number: divided once, by the count of the global batch.
struct Loss {
  Var sum, count;
};

// Called on tokens [B, T], it gives logits [B, T, V].
class Model : public Layer {
 public:
  // targets [B, T]; ignored ones (CrossEntropyOptions) neither add to the sum nor to the count.
  virtual Loss LossOf(Var tokens, Var targets, const CrossEntropyOptions& options = {});
  // The logits of some tokens alone: `places` [R, N] are indices into the B x T of them. [R, N, V]
  virtual Var LogitsAt(Var tokens, Var places) = 0;
  // Whether the parameter is a table of which tokens read rows, and nothing more.
  virtual bool OnlyLooksUp(const Parameter&) const { return false; }
  // Of a token among `tokens`, forward and backward, what no parameter takes part in.
  virtual double AttentionFlops(int64_t tokens) const = 0;
};

}  // namespace weft
