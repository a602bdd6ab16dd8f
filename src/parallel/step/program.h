// The training step as programs. Micro gives the sums of one micro-batch, Update turns the sums of the global batch
// into new parameters; every executor runs these two functions, so a value cannot cross the cut between them unnoticed.
//
// With k micro-steps there are two programs: `accumulate` (k - 1 times) adds to the accumulators, `step` does the last
// micro-step, the reductions and the update. k = 1 is `step` alone.
#pragma once
#include <optional>
#include <vector>

#include "weft/core/ops/optimizer_ops.h"
#include "weft/core/transforms/partition.h"
#include "weft/parallel/nn/layers/transformer.h"
#include "weft/parallel/step/loss_scale.h"
#include "weft/parallel/step/state.h"

namespace weft {

struct StepOptions {
  ModelScope::Options model;
  AdamWOptions adamw;
  double clip = 0;               // of the global gradient norm; 0: none
  int64_t rows = 1, tokens = 1;  // of one micro-step, globally: [rows, tokens]
  int micro_steps = 1;
  int64_t global_batch = 1;  // sequences of a step
  CrossEntropyOptions loss;
  LossScaleOptions loss_scale{};
  uint64_t seed = 0;
  bool print_ops = false;                // interpret prints every op it runs (rank 0)
  const KernelTable* kernels = nullptr;  // of the device that runs the step; ops it lacks become their compositions
};

// Only f16 has the range problem that a loss scale answers.
inline bool ScalesLoss(const StepOptions& options) { return options.model.precision.compute == DType::kF16; }

// Names of the State entries that are not parameters.
namespace entry {
inline constexpr const char *kTokens = "slot.tokens", *kTargets = "slot.targets", *kLr = "slot.lr",
                            *kStep = "slot.step", *kFirstRow = "slot.first_row", *kUpdates = "slot.updates",
                            *kLossSum = "acc.loss_sum", *kCount = "acc.count";
std::string FirstMoment(const std::string& parameter);
std::string SecondMoment(const std::string& parameter);
std::string Accumulator(const std::string& parameter);
}  // namespace entry

// Sums over a micro-batch: the loss, the number of its targets, and the gradient of the sum for each parameter (times
// LossSeed where the loss is scaled).
struct MicroSums {
  Var sum, count;
  std::vector<Var> gradients;
};
MicroSums Micro(Transformer& model, const StepOptions& options);
MicroSums Plus(const MicroSums& a, const MicroSums& b);

// Outputs "loss", "grad_norm", "count" and those of DecideUpdate where the loss is scaled; writes the parameters and
// moments.
struct UpdateResult {
  std::vector<NamedValue> outputs, writes;
};
UpdateResult Update(Transformer& model, const StepOptions& options, const MicroSums& sums);

struct StepPrograms {
  std::optional<LocalProgram> accumulate;
  LocalProgram step;
  std::vector<std::pair<std::string, Sharding>> accumulators;  // entries and placements, in the order of MicroSums
  size_t global_nodes = 0;
  double micro_flops = 0;  // of the products of one micro-step, all ranks together
};
StepPrograms BuildStep(Transformer& model, const StepOptions& options);
// One micro-batch of evaluation, inside a builder and a ModelScope: outputs "sum" and "count".
std::vector<NamedValue> EvalSums(Transformer& model, const StepOptions& options);
LocalProgram BuildEval(Transformer& model, const StepOptions& options);

// Every entry that the programs name, on whichever rank: the one list that memory is planned and allocated by.
enum class EntryKind : uint8_t { kParameter, kMoment, kLossScale, kCopy, kAccumulator, kSlot };
bool IsSaved(EntryKind kind);      // part of a checkpoint
const char* Name(EntryKind kind);  // as memory is told by: "parameters"; the loss scale counts as a slot
struct EntryInfo {
  std::string name;
  EntryKind kind;
  DType dtype;
  Shape shape;  // global
  Sharding sharding;
};
std::vector<EntryInfo> EntriesOf(Transformer& model, const StepOptions& options, const StepPrograms& programs);
// Those that are filled before each micro-step.
std::vector<EntryInfo> SlotEntries(const StepOptions& options);
// How many images of them there are in staging memory, where the device is not the CPU: one step may run while the next
// is filled.
constexpr int SlotImages(int micro_steps) { return 2 * micro_steps; }
// Adds entries to the state, as zeros; slots side by side.
void AddEntries(State& state, const std::vector<EntryInfo>& entries);
// Adds them all, and sets the loss scale.
void AddEntries(State& state, Transformer& model, const StepOptions& options, const StepPrograms& programs);
// Sets the parameters to their initial values, a function of seed and path only; copies follow.
void InitParameters(State& state, Transformer& model, const StepOptions& options, const Runtime& runtime);
// Sets the copies in the used types (fsdp: gradients) from the parameters, where these were set otherwise.
void RefreshCopies(State& state, Transformer& model, const StepOptions& options, const Runtime& runtime);

}  // namespace weft
