// StepOptions: everything that defines a training step, apart from the sizes of the model.
#pragma once
#include "weft/core/ops/loss.h"
#include "weft/core/passes/recompute_options.h"
#include "weft/core/transforms/partition.h"
#include "weft/parallel/optimizer/optimizer.h"
#include "weft/parallel/step/gather_mode.h"
#include "weft/parallel/step/loss_scale.h"

namespace weft {

struct StepOptions {
  ModelScope::Options model;
  Optimizer optimizer;
  double clip = 0;               // maximum of the global gradient norm; 0: no clipping
  int64_t rows = 1, tokens = 1;  // of one micro-step, over all ranks: [rows, tokens]
  int64_t source_tokens = 0;     // how many of a row's tokens are the source of the others
  int micro_steps = 1;
  bool halves = false;       // a micro-step computes its rows as two halves, which executors may interleave
  int64_t global_batch = 1;  // sequences per step
  CrossEntropyOptions loss;
  LossScaleOptions loss_scale{};
  RecomputeOptions recompute{};  // of executor compiled
  uint64_t seed = 0;
  GatherMode gather = GatherMode::kKernels;  // of executor compiled
  bool symmetric_memory = false;             // of executor compiled
  bool print_ops = false;                    // executor interpret prints every op that it runs (on rank 0)
  bool check = false;                        // throw Error if a collective would be inserted that no reshard asks for
  // The kernels of the device that runs the step. Ops without a kernel become their compositions.
  const KernelTable* kernels = nullptr;

  // Copy engines exchange the terms of sums in bf16, unless symmetric kernels make these sums.
  PartitionOptions partition() const {
    bool exchange = gather == GatherMode::kCopy && !symmetric_memory;
    return {.mesh = model.mesh, .check = check, .kernels = kernels, .exchange_terms = exchange};
  }
};

// Only the range of f16 is so small that it needs a loss scale.
inline bool ScalesLoss(const StepOptions& options) { return options.model.precision.compute == DType::kF16; }
// Returns the factor by which the loss is multiplied before its gradients are computed. It is the same in all
// micro-steps and on every mesh.
inline Var LossSeed(const StepOptions& options) { return LossSeed(options.global_batch * options.tokens); }
// Returns the type of losses, norms and learning rates.
inline DType ScalarType(const StepOptions& options) { return AccumulateType(options.model.precision.params); }

}  // namespace weft
