// RunSummary: a run as a few rows of a table.
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
