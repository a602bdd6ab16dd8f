#include "launcher/report/picture.h"

#include <algorithm>
#include <deque>

#include "fmt/format.h"
#include "launcher/report/chart_style.h"
#include "launcher/report/html.h"

#include "weft/core/host/rounding.h"

namespace weft {
namespace {

// A cell has a chart, and lines above it with its title and the names of its curves.
constexpr int kCellWidth = kChartWidth, kLineHeight = 20, kTitleHeight = 16, kMargin = 12;
constexpr int kCharacters = 74;  // of a line; bold letters of 15 pixels are 8.5 wide on average
// The most points of a curve. A picture is shown smaller than a page, and pages load many of them.
constexpr size_t kMostOfOne = 256, kMostOfMany = 128;

std::string Style() {
  return fmt::format(
      "<style>\n{}text {{ font-family: system-ui, sans-serif; }}\n"
      "svg .name text {{ font-size: 15px; font-weight: 600; }}\n</style>\n",
      ChartStyle());
}

// A line of names, whose first may be the title.
struct NameLine {
  std::string svg;
  size_t characters = 0;
};
std::vector<NameLine> NameLines(const Chart& chart) {
  std::vector<NameLine> lines{{EscapeHtml(chart.title), chart.title.size()}};
  for (const Curve& curve : chart.curves) {
    std::string name = (curve.is_validation ? "- - " : "") + curve.name;
    size_t characters = name.size() + 2;
    if (lines.back().characters + characters > kCharacters) lines.emplace_back();
    NameLine& line = lines.back();
    line.svg += fmt::format("<tspan class=\"c{}\"{}>{}</tspan>", curve.color, line.characters ? " dx=\"16\"" : "",
                            EscapeHtml(name));
    line.characters += characters;
  }
  return lines;
}

// `above` is the height of the lines above the chart.
std::string Cell(const Chart& chart, int x, int y, int above) {
  std::string svg = "<g class=\"name\">";
  int at = y + 4;
  for (const NameLine& line : NameLines(chart))
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", x + 8, at += kLineHeight, line.svg);
  return svg + "</g>\n" +
         Svg(chart,
             fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" ", x, y + above, kChartWidth, kChartHeight));
}

}  // namespace

std::string Picture(std::vector<Chart> charts) {
  for (Chart& chart : charts)
    std::erase_if(chart.curves, [](const Curve& curve) { return curve.series->Whole().count == 0; });
  std::erase_if(charts, [](const Chart& chart) { return chart.curves.empty(); });
  if (charts.empty()) return "";
  std::deque<Series> coarser;  // owns the series of the picture
  for (Chart& chart : charts)
    for (Curve& curve : chart.curves)
      curve.series = &coarser.emplace_back(curve.series->Coarser(charts.size() > 1 ? kMostOfMany : kMostOfOne));
  size_t lines = 1;
  for (const Chart& chart : charts) lines = std::max(lines, NameLines(chart).size());
  int above = kTitleHeight + int(lines) * kLineHeight, cell_height = kChartHeight + above;
  int count = int(charts.size()), columns = count > 1 ? 2 : 1, rows = int(CeilDiv(count, columns));
  int width = columns * kCellWidth + (columns + 1) * kMargin, height = rows * cell_height + (rows + 1) * kMargin;
  std::string svg = fmt::format("{} viewBox=\"0 0 {} {}\">\n{}<rect width=\"{}\" height=\"{}\" class=\"page\"/>\n",
                                kPictureBegin, width, height, Style(), width, height);
  for (int i = 0; i < count; i++)
    svg += Cell(charts[size_t(i)], kMargin + i % columns * (kCellWidth + kMargin),
                kMargin + i / columns * (cell_height + kMargin), above);
  return svg + "</svg>\n";
}

}  // namespace weft
