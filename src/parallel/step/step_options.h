// StepOptions: what a training step is, beside the sizes of the model.
#pragma once
#include "weft/core/ops/loss.h"
#include "weft/core/transforms/partition.h"
#include "weft/parallel/optimizer/optimizer.h"
#include "weft/parallel/step/loss_scale.h"

namespace weft {

struct StepOptions {
  ModelScope::Options model;
  Optimizer optimizer;
  double clip = 0;               // of the global gradient norm; 0: none
  int64_t rows = 1, tokens = 1;  // of one micro-step, globally: [rows, tokens]
  int micro_steps = 1;
  int64_t global_batch = 1;  // sequences of a step
  CrossEntropyOptions loss;
  LossScaleOptions loss_scale{};
  uint64_t seed = 0;
  bool print_ops = false;                // interpret prints every op it runs (rank 0)
  bool check = false;                    // refuse where a collective would be inserted that no reshard asks for
  const KernelTable* kernels = nullptr;  // of the device that runs the step; ops it lacks become their compositions

  PartitionOptions partition() const { return {.mesh = model.mesh, .check = check, .kernels = kernels}; }
};

// Only f16 has the range problem that a loss scale answers.
inline bool ScalesLoss(const StepOptions& options) { return options.model.precision.compute == DType::kF16; }
// What the loss is multiplied by before its gradients are taken: the same in all micro-steps, and on every mesh.
inline Var LossSeed(const StepOptions& options) { return LossSeed(options.global_batch * options.tokens); }
// The type of losses, norms and learning rates.
inline DType ScalarType(const StepOptions& options) { return AccumulateType(options.model.precision.params); }

}  // namespace weft
