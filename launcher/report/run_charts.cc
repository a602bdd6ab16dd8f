#include "launcher/report/run_charts.h"

#include <iterator>
#include <utility>

namespace weft {
namespace {

struct ChartRow {
  const char *title, *unit, *curve;  // `curve`: its name in the chart of a single run
  Series RunHistory::*series;
  Series RunHistory::*validation = nullptr;
  bool may_be_logarithmic = false;
};
constexpr ChartRow kRows[] = {
    {"Loss", "nats per token", "training", &RunHistory::loss, &RunHistory::val_loss, true},
    {"Tokens per second", "tokens per second", "tokens per second", &RunHistory::tokens_per_s},
    {"Gradient norm", "norm", "norm", &RunHistory::grad_norm, nullptr, true},
    {"Learning rate", "rate", "rate", &RunHistory::lr},
    {"Model FLOPs utilization", "share of the device's peak", "share", &RunHistory::mfu},
};
static_assert(std::size(kRows) == std::size(kChartNames));

}  // namespace

std::vector<Chart> ChartsOf(const RunHistory& run) {
  std::vector<Chart> charts;
  for (const ChartRow& row : kRows) {
    Chart chart{.title = row.title, .unit = row.unit, .may_be_logarithmic = row.may_be_logarithmic};
    chart.curves.push_back({row.curve, &(run.*row.series)});
    if (row.validation)
      chart.curves.push_back(
          {.name = "validation", .series = &(run.*row.validation), .color = 1, .is_validation = true});
    charts.push_back(std::move(chart));
  }
  return charts;
}

std::vector<Chart> ChartsOf(std::span<const ReportedRun> runs) {
  std::vector<Chart> charts;
  for (const ChartRow& row : kRows) {
    Chart chart{.title = row.title, .unit = row.unit, .may_be_logarithmic = row.may_be_logarithmic};
    for (size_t i = 0; i < runs.size(); i++) {
      chart.curves.push_back({.name = runs[i].name, .series = &(runs[i].history.*row.series), .color = int(i)});
      if (row.validation)
        chart.curves.push_back({.name = runs[i].name + ", validation",
                                .series = &(runs[i].history.*row.validation),
                                .color = int(i),
                                .is_validation = true});
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace weft
