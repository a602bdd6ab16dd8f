// The charts of runs: loss, tokens per second, gradient norm, learning rate and FLOPs utilization.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "launcher/report/chart.h"
#include "launcher/report/run_history.h"

namespace weft {

struct ReportedRun {
  std::string name, log;  // `log` is the path
  RunHistory history;
  std::string config;  // YAML
};

// Names that choose one of the charts below, in their order.
inline constexpr const char* kChartNames[] = {"loss", "tokens_per_s", "grad_norm", "lr", "mfu"};

// Return one chart for each name, loss first. The runs must outlive the charts. Charts of several runs have one curve
// per run, and the loss also one validation curve per run.
std::vector<Chart> ChartsOf(const RunHistory& run);
std::vector<Chart> ChartsOf(std::span<const ReportedRun> runs);

}  // namespace weft
