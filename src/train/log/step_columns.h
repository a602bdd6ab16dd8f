// StepColumn: the numbers of a step, with their names in log files.
#pragma once
#include <optional>

#include "weft/train/log/metrics.h"

namespace weft {

struct StepColumn {
  const char* name;
  std::optional<double> (*value)(const StepRecord& record);  // none: unknown
  bool of_loss_scale = false;                                // only steps with a loss scale have it
};

inline constexpr StepColumn kStepColumns[] = {
    {"step", [](const StepRecord& r) { return std::optional<double>(r.step); }},
    {"loss", [](const StepRecord& r) { return std::optional<double>(r.loss); }},
    {"grad_norm", [](const StepRecord& r) { return std::optional<double>(r.grad_norm); }},
    {"lr", [](const StepRecord& r) { return std::optional<double>(r.lr); }},
    {"ms", [](const StepRecord& r) { return std::optional<double>(r.ms); }},
    {"tokens_per_s", [](const StepRecord& r) { return std::optional<double>(r.tokens_per_s); }},
    {"mfu", [](const StepRecord& r) { return r.mfu; }},
    {"peak_bytes", [](const StepRecord& r) { return std::optional<double>(r.peak_bytes); }},
    {"loss_scale", [](const StepRecord& r) { return r.loss_scale; }, true},
    {"skipped", [](const StepRecord& r) { return r.loss_scale ? std::optional(double(r.skipped)) : std::nullopt; },
     true},
};

}  // namespace weft
