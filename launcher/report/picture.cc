#include "launcher/report/picture.h"

#include <deque>

#include "fmt/format.h"
#include "launcher/report/chart_style.h"
#include "launcher/report/html.h"

namespace weft {
namespace {

// A cell has a chart and a line above it with its title and the names of its curves.
constexpr int kCellWidth = kChartWidth, kTitleHeight = 36, kCellHeight = kChartHeight + kTitleHeight, kMargin = 12;
// The most points of a curve. A picture is shown smaller than a page, and pages load many of them.
constexpr size_t kMostOfOne = 256, kMostOfMany = 128;

std::string Style() {
  return fmt::format(
      "<style>\n{}text {{ font-family: system-ui, sans-serif; }}\n"
      "svg .name text {{ font-size: 15px; font-weight: 600; }}\n</style>\n",
      ChartStyle());
}

std::string Cell(const Chart& chart, int x, int y) {
  std::string names;
  for (const Curve& curve : chart.curves)
    names += fmt::format("<tspan class=\"c{}\" dx=\"16\">{}{}</tspan>", curve.color, curve.is_validation ? "- - " : "",
                         EscapeHtml(curve.name));
  return fmt::format("<g class=\"name\"><text x=\"{}\" y=\"{}\">{}{}</text></g>\n{}", x + 8, y + 24,
                     EscapeHtml(chart.title), names,
                     Svg(chart, fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" ", x, y + kTitleHeight,
                                            kChartWidth, kChartHeight)));
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
  int count = int(charts.size()), columns = count > 1 ? 2 : 1, rows = (count + columns - 1) / columns;
  int width = columns * kCellWidth + (columns + 1) * kMargin, height = rows * kCellHeight + (rows + 1) * kMargin;
  std::string svg = fmt::format("{} viewBox=\"0 0 {} {}\">\n{}<rect width=\"{}\" height=\"{}\" class=\"page\"/>\n",
                                kPictureBegin, width, height, Style(), width, height);
  for (int i = 0; i < count; i++)
    svg += Cell(charts[size_t(i)], kMargin + i % columns * (kCellWidth + kMargin),
                kMargin + i / columns * (kCellHeight + kMargin));
  return svg + "</svg>\n";
}

}  // namespace weft
