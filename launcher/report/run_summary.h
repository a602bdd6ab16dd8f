// RunSummary: a run in a few rows, for people.
#pragma once
#include <string>
#include <vector>

#include "launcher/report/run_history.h"

namespace weft {

struct SummaryRow {
  std::string name, value;
};
std::vector<SummaryRow> SummaryOf(const RunHistory& run);

}  // namespace weft
