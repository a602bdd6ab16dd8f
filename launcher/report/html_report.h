// HtmlReport: the log of a run as one page. The page loads nothing and has no script.
#pragma once
#include <string>

#include "launcher/report/run_history.h"

namespace weft {

// `name` is the heading of the page. `config` is shown unchanged.
std::string HtmlReport(const RunHistory& run, const std::string& name, const std::string& config);

}  // namespace weft
