#include "launcher/report/page.h"

#include "fmt/format.h"
#include "launcher/report/chart_style.h"
#include "launcher/report/html.h"

namespace weft {
namespace {

// The policy prevents a browser from loading or running anything, whatever a log contains.
constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
)";

constexpr const char* kStyle = R"(:root { background: var(--page); color: var(--text); }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 800px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em; overflow-wrap: anywhere; }
h2 { font-size: 1.05em; margin: 1.6em 0 .3em; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .2em 1.2em .2em 0; border-bottom: 1px solid var(--rule); }
th { font-weight: normal; color: var(--faint); white-space: nowrap; }
figure { margin: 0; }
figcaption, footer { color: var(--faint); font-size: .9em; }
svg { width: 100%; height: auto; display: block; }
.wide { overflow-x: auto; }
pre { border: 1px solid var(--rule); border-radius: 6px; padding: .8em; overflow-x: auto; font-size: 13px; }
footer { margin: 2em 0; }
@media (max-width: 600px) { svg text { font-size: 20px; } th { white-space: normal; } }
</style>
)";

}  // namespace

std::string Page(const std::string& title, const std::string& body) {
  std::string name = EscapeHtml(title);
  return fmt::format(
      "{0}{1}{2}<title>{3}</title>\n</head>\n<body>\n<h1>{3}</h1>\n{4}<footer>weft report {5}</footer>\n</body>\n"
      "</html>\n",
      kHead, ChartStyle(), kStyle, name, body, WEFT_VERSION);
}

std::string Table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"wide\">\n<table>\n";
  auto add = [&](const std::vector<std::string>& cells, bool is_head) {
    html += "<tr>";
    for (size_t i = 0; i < cells.size(); i++) {
      const char* element = is_head || i == 0 ? "th" : "td";
      html += fmt::format("<{0}>{1}</{0}>", element, EscapeHtml(cells[i]));
    }
    html += "</tr>\n";
  };
  if (!head.empty()) add(head, true);
  for (const std::vector<std::string>& row : rows) add(row, false);
  return html + "</table>\n</div>\n";
}

std::string Figure(Chart chart) {
  std::erase_if(chart.curves, [](const Curve& curve) { return curve.series->Whole().count == 0; });
  if (chart.curves.empty()) return "";
  std::string caption;
  for (const Curve& curve : chart.curves) {
    Series::Bucket whole = curve.series->Whole();
    caption += fmt::format("{}<b class=\"c{}\">{}</b> {:.6g} to {:.6g}", caption.empty() ? "" : "; ", curve.color,
                           EscapeHtml(curve.name), whole.low, whole.high);
    if (whole.missing > 0) caption += fmt::format(", {} not finite", whole.missing);
  }
  return fmt::format("<h2>{}</h2>\n<figure>\n{}<figcaption>{}; over {}</figcaption>\n</figure>\n",
                     EscapeHtml(chart.title), Svg(chart), caption, chart.over);
}

}  // namespace weft
