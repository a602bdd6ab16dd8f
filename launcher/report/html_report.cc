#include "launcher/report/html_report.h"

#include "fmt/format.h"
#include "launcher/report/html.h"
#include "launcher/report/page.h"
#include "launcher/report/run_charts.h"
#include "launcher/report/run_summary.h"

namespace weft {

std::string HtmlReport(const RunHistory& run, const std::string& name, const std::string& config) {
  std::vector<std::vector<std::string>> rows;
  for (const SummaryRow& row : SummaryOf(run)) rows.push_back({row.name, row.value});
  std::string body = Table({}, rows);
  for (Chart& chart : ChartsOf(run)) body += Figure(std::move(chart));
  return Page(name, body + fmt::format("<h2>Config</h2>\n<pre>{}</pre>\n", EscapeHtml(config)));
}

}  // namespace weft
