#include "weft/parallel/nn/model.h"

#include <fmt/format.h>

#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/parallel/nn/kv_cache.h"

namespace weft {

Loss Model::LossOf(Var tokens, Var targets, const CrossEntropyOptions& options) {
  return LossOfLogits((*this)(tokens), targets, options);
}

Var Model::LastLogits(Var tokens, Var last) {
  WEFT_CHECK(
      !KvCache::Current(),
      fmt::format("last_logits at {}: expected a model that keeps keys and values of earlier tokens, got one that "
                  "keeps none; use cache=false, or call it without a KvCache",
                  ToString(tokens.node().loc)));
  Var row = Iota(0, DType::kI64, {tokens.dim(0)});                                  // [B]
  Var places = last + row * Full(double(tokens.dim(1)), row.dtype(), row.shape());  // [B]
  return LogitsAt(tokens, Unsqueeze(places, 1));                                    // [B, 1, V]
}

void Model::KeepSource(Var) { Fail("the model reads no source; it continues texts"); }

Loss LossOfLogits(Var logits, Var targets, const CrossEntropyOptions& options) {
  ModuleScope scope("loss");
  Var losses = CrossEntropy(logits, targets, options);                                             // [B, T]
  Var counts = Ne(targets, Full(double(options.ignore_index), targets.dtype(), targets.shape()));  // [B, T] bool
  return {SumAll(losses), SumAll(Cast(counts, losses.dtype()))};
}

std::vector<Var> Grad(const Loss& loss, std::span<const Parameter* const> parameters, Var seed) {
  std::vector<Var> sources;
  for (const Parameter* p : parameters) sources.push_back(p->Source());
  return Grad(loss.sum, sources, {std::move(seed), ModelScope::Current().options().precision.reduce});
}

}  // namespace weft
