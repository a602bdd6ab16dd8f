#include "weft/train/preflight/recompute.h"

#include <cmath>

#include "fmt/format.h"
#include "weft/core/base/memory.h"
#include "weft/parallel/step/memory_need.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/model_of.h"
#include "weft/train/preflight/config_error.h"

namespace weft {
namespace {

constexpr int kShares = 256;  // more than the values of a block times the blocks of most models
constexpr int kStride = 16;

// `least` is in bytes. The number is rounded up, so that it is enough if it is given.
ConfigError TooLittle(const Config& config, int64_t least) {
  return ConfigError(
      fmt::format("{}expected a budget of at least {} GiB, the least that a rank needs however much is "
                  "computed again, got {} GiB; raise it, or lower train.micro_batch",
                  PlaceOf(config, "train.recompute"), std::ceil(double(least) / double(1 << 30) * 1000) / 1000,
                  config.train.recompute.budget));
}

}  // namespace

bool HasBudget(const Config& config) {
  return config.train.recompute.mode == RecomputeMode::kBudget && ExecutorOf(config) == ExecutorKind::kCompiled;
}

int64_t BudgetBytes(const Config& config) { return int64_t(config.train.recompute.budget * double(int64_t(1) << 30)); }

double RecomputeShare(const Config& config, const StepOptions& options, const Runtime& runtime,
                      absl::FunctionRef<int64_t(int64_t)> most) {
  if (!HasBudget(config)) return 0;
  TrainingStep step(ModelOf(config), options);
  auto need_at = [&](int part) {
    StepPlans plans = step.Compile(runtime, {RecomputeMode::kBudget, double(part) / kShares});
    MemoryNeed need = MemoryNeedOf(step, &plans, runtime.device);
    if (!config.checkpoint.dir.empty()) need += SnapshotNeedOf(step, runtime.coords, runtime.device);
    return most(need.Total());
  };
  int64_t budget = BudgetBytes(config), none = need_at(0);
  if (none <= budget) return 0;
  // Near the end, what a block computes again at the same time may take more memory than a larger share frees.
  int64_t least = need_at(kShares);
  int high = kShares;  // needs little enough; low too much
  for (int64_t next = 0; high > kStride && (next = need_at(high - kStride)) < least; high -= kStride) least = next;
  if (least > budget) throw TooLittle(config, std::min(least, none));
  for (int low = 0; high - low > 1;) (need_at((low + high) / 2) > budget ? low : high) = (low + high) / 2;
  return double(high) / kShares;
}

}  // namespace weft
