#include "launcher/report/html_report.h"

#include "fmt/format.h"
#include "launcher/report/html.h"
#include "launcher/report/page.h"
#include "launcher/report/run_summary.h"

namespace weft {

std::string HtmlReport(const RunHistory& run, const std::string& name, const std::string& config) {
  std::vector<std::vector<std::string>> rows;
  for (const SummaryRow& row : SummaryOf(run)) rows.push_back({row.name, row.value});
  std::string body = Table({}, rows);
  Curve validation{.name = "validation", .series = &run.val_loss, .color = 1, .is_validation = true};
  body += Figure({"Loss", "nats per token", {{"training", &run.loss}, validation}, true});
  body += Figure({"Tokens per second", "tokens per second", {{"tokens per second", &run.tokens_per_s}}});
  body += Figure({"Gradient norm", "norm", {{"norm", &run.grad_norm}}, true});
  body += Figure({"Learning rate", "rate", {{"rate", &run.lr}}});
  body += Figure({"Model FLOPs utilization", "share of the device's peak", {{"share", &run.mfu}}});
  return Page(name, body + fmt::format("<h2>Config</h2>\n<pre>{}</pre>\n", EscapeHtml(config)));
}

}  // namespace weft
