#include "launcher/report/html_report.h"

#include "fmt/format.h"
#include "launcher/report/chart.h"
#include "launcher/report/html.h"
#include "launcher/report/run_summary.h"

namespace weft {
namespace {

// The policy lets a browser load and run nothing, whatever a log holds.
constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --text: #1b1f24; --faint: #59636e; --rule: #d8dee4; --c0: #1f6feb; --c1: #d1570a;
  background: #fff; color: var(--text); }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --faint: #9198a1; --rule: #343b43; --c0: #6cb0ff; --c1: #ffa657; background: #0d1117; }
}
body { font: 15px/1.45 system-ui, sans-serif; max-width: 960px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em; overflow-wrap: anywhere; }
h2 { font-size: 1.05em; margin: 1.6em 0 .3em; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .2em 1.2em .2em 0; border-bottom: 1px solid var(--rule); }
th { font-weight: normal; color: var(--faint); white-space: nowrap; }
figure { margin: 0; }
figcaption, footer { color: var(--faint); font-size: .9em; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--faint); font-size: 12px; }
.grid path { stroke: var(--rule); fill: none; }
polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
polygon { opacity: .3; }
.c0 polyline { stroke: var(--c0); } .c0 polygon, .c0 circle { fill: var(--c0); } b.c0 { color: var(--c0); }
.c1 polyline { stroke: var(--c1); } .c1 polygon, .c1 circle { fill: var(--c1); } b.c1 { color: var(--c1); }
pre { border: 1px solid var(--rule); border-radius: 6px; padding: .8em; overflow-x: auto; font-size: 13px; }
footer { margin: 2em 0; }
</style>
)";

std::string Table(const std::vector<SummaryRow>& rows) {
  std::string html = "<table>\n";
  for (const SummaryRow& row : rows)
    html += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", EscapeHtml(row.name), EscapeHtml(row.value));
  return html + "</table>\n";
}

// A chart under its title, with the range of each curve; a curve without values is not there, nor is an empty chart.
std::string Figure(Chart chart) {
  std::erase_if(chart.curves, [](const Curve& curve) { return curve.series->Whole().count == 0; });
  if (chart.curves.empty()) return "";
  std::string caption;
  for (size_t i = 0; i < chart.curves.size(); i++) {
    Series::Bucket whole = chart.curves[i].series->Whole();
    caption += fmt::format("{}<b class=\"c{}\">{}</b> {:.6g} to {:.6g}", i ? "; " : "", i,
                           EscapeHtml(chart.curves[i].name), whole.low, whole.high);
    if (whole.missing > 0) caption += fmt::format(", {} not finite", whole.missing);
  }
  return fmt::format("<h2>{}</h2>\n<figure>\n{}<figcaption>{}; over steps</figcaption>\n</figure>\n",
                     EscapeHtml(chart.title), Svg(chart), caption);
}

}  // namespace

std::string HtmlReport(const RunHistory& run, const std::string& name, const std::string& config) {
  std::string title = EscapeHtml(name);
  std::string html = fmt::format("{}<title>{}</title>\n</head>\n<body>\n<h1>{}</h1>\n", kHead, title, title);
  html += Table(SummaryOf(run));
  html += Figure({"Loss, nats per token", {{"training", &run.loss}, {"validation", &run.val_loss}}, true});
  html += Figure({"Tokens per second", {{"tokens per second", &run.tokens_per_s}}});
  html += Figure({"Gradient norm", {{"norm", &run.grad_norm}}, true});
  html += Figure({"Learning rate", {{"rate", &run.lr}}});
  html += Figure({"Model FLOPs utilization, share of the device's peak", {{"share", &run.mfu}}});
  html += fmt::format("<h2>Config</h2>\n<pre>{}</pre>\n", EscapeHtml(config));
  return html + fmt::format("<footer>weft report {}</footer>\n</body>\n</html>\n", WEFT_VERSION);
}

}  // namespace weft
