// HtmlReport: a run's log as one page that needs nothing else: no network, no script.
#pragma once
#include <string>

#include "launcher/report/run_history.h"

namespace weft {

// `name` heads the page; `config` is shown as it is.
std::string HtmlReport(const RunHistory& run, const std::string& name, const std::string& config);

}  // namespace weft
