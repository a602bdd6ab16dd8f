#include "weft/parallel/step/loss_scale.h"

#include <bit>
#include <limits>

#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

Var Constant(int64_t value) { return Full(double(value), DType::kI64, {}); }
Var Constant(double value) { return Full(value, DType::kF32, {}); }

}  // namespace

// Dividing the scale by a power of two changes no digit of a gradient.
Var LossSeed(int64_t targets) {
  ModuleScope path("loss_scale");
  return Scale(Leaf(entry::kLossScale, DType::kF32, {}), 1 / double(std::bit_floor(uint64_t(targets))));  // []
}

ScaledUpdate DecideUpdate(Var norm, Var updates, const LossScaleOptions& o) {
  ModuleScope path("loss_scale");
  Var scale = Leaf(entry::kLossScale, DType::kF32, {}), good = Leaf(entry::kGoodSteps, DType::kI64, {}),
      skipped = Leaf(entry::kSkipped, DType::kI64, {});
  Var none = Constant(int64_t(0)), one = Constant(int64_t(1));
  Var finite = Lt(norm, Full(std::numeric_limits<double>::infinity(), norm.dtype(), {}));  // false for NaN too
  Var run = good + one;
  Var grows = Ge(run, Constant(o.growth_interval));
  Var higher = Minimum(Scale(scale, o.growth_factor), Constant(LossScaleOptions::kMost));
  Var lower = Maximum(Scale(scale, o.backoff_factor), Constant(o.min));
  Var next_scale = Select(finite, Select(grows, higher, scale), lower);
  Var next_good = Select(finite, Select(grows, none, run), none);
  Var next_skipped = skipped + Select(finite, none, one);
  return {.updates = Select(finite, updates - skipped, none),
          .outputs = {{"loss_scale", scale}, {"skipped", Cast(next_skipped, DType::kF64)}},
          .writes = {{entry::kLossScale, next_scale}, {entry::kGoodSteps, next_good}, {entry::kSkipped, next_skipped}}};
}

}  // namespace weft
