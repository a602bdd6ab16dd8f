#include "launcher/report/page.h"

#include "fmt/format.h"
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
:root { color-scheme: light dark; --text: #1b1f24; --faint: #59636e; --rule: #d8dee4; --c0: #1f6feb; --c1: #d1570a;
  --c2: #1a7f37; --c3: #8250df; --c4: #bf3989; --c5: #7d4e00; --c6: #007a8a; --c7: #57606a; background: #fff; color: var(--text); }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --faint: #9198a1; --rule: #343b43; --c0: #6cb0ff; --c1: #ffa657; --c2: #56d364; --c3: #d2a8ff;
    --c4: #ff8bc8; --c5: #e3b341; --c6: #56d4dd; --c7: #b1bac4; background: #0d1117; }
}
body { font: 15px/1.45 system-ui, sans-serif; max-width: 800px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em; overflow-wrap: anywhere; }
h2 { font-size: 1.05em; margin: 1.6em 0 .3em; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .2em 1.2em .2em 0; border-bottom: 1px solid var(--rule); }
th { font-weight: normal; color: var(--faint); white-space: nowrap; }
figure { margin: 0; }
figcaption, footer { color: var(--faint); font-size: .9em; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--faint); font-size: 13px; }
.grid path { stroke: var(--rule); fill: none; }
polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
polygon { opacity: .18; }
.c0 polyline { stroke: var(--c0); } .c0 polygon, .c0 circle { fill: var(--c0); } b.c0 { color: var(--c0); }
.c1 polyline { stroke: var(--c1); } .c1 polygon, .c1 circle { fill: var(--c1); } b.c1 { color: var(--c1); }
.c2 polyline { stroke: var(--c2); } .c2 polygon, .c2 circle { fill: var(--c2); } b.c2 { color: var(--c2); }
.c3 polyline { stroke: var(--c3); } .c3 polygon, .c3 circle { fill: var(--c3); } b.c3 { color: var(--c3); }
.c4 polyline { stroke: var(--c4); } .c4 polygon, .c4 circle { fill: var(--c4); } b.c4 { color: var(--c4); }
.c5 polyline { stroke: var(--c5); } .c5 polygon, .c5 circle { fill: var(--c5); } b.c5 { color: var(--c5); }
.c6 polyline { stroke: var(--c6); } .c6 polygon, .c6 circle { fill: var(--c6); } b.c6 { color: var(--c6); }
.c7 polyline { stroke: var(--c7); } .c7 polygon, .c7 circle { fill: var(--c7); } b.c7 { color: var(--c7); }
.raw { opacity: .35; stroke-width: 1; }
.validation polyline { stroke-width: 2.4; stroke-dasharray: 7 3; }
.axis text { fill: var(--text); }
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
      "{0}<title>{1}</title>\n</head>\n<body>\n<h1>{1}</h1>\n{2}<footer>weft report {3}</footer>\n</body>\n</html>\n",
      kHead, name, body, WEFT_VERSION);
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
