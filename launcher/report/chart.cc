#include "launcher/report/chart.h"

#include <optional>

#include "fmt/format.h"
#include "launcher/report/axis.h"
#include "launcher/report/html.h"
#include "launcher/report/smoothing.h"

namespace weft {
namespace {

using Bucket = Series::Bucket;

// In units of the drawing, which a browser scales to the width of the page. The margins have room for the larger text
// on narrow screens.
constexpr double kWidth = kChartWidth, kHeight = kChartHeight, kLeft = 84, kRight = 18, kTop = 34, kBottom = 62;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr int64_t kMostPoints = 100;  // a curve with more values does not show its points
constexpr double kDecadesFrom = 30;   // the ratio of highest to lowest value from which an axis is logarithmic

struct Plane {
  Axis x, y;
  double X(double step) const { return kLeft + kPlotWidth * x.At(step); }
  double Y(double value) const { return kTop + kPlotHeight * (1 - y.At(value)); }
};

std::optional<Plane> PlaneOf(const Chart& chart) {
  Bucket all;
  std::optional<double> first, last;
  for (const Curve& curve : chart.curves)
    for (const Bucket& bucket : curve.series->buckets()) {
      if (bucket.count == 0) continue;
      all.Merge(bucket);
      first = std::min(first.value_or(bucket.step()), bucket.step());
      last = std::max(last.value_or(bucket.step()), bucket.step());
    }
  if (!first) return std::nullopt;
  bool decades = chart.may_be_logarithmic && all.low > 0 && all.high / all.low >= kDecadesFrom;
  double low = chart.from_zero ? std::min(all.low, 0.0) : all.low;
  return Plane{Axis(*first, *last), Axis(low, all.high, decades)};
}

std::string Grid(const Plane& plane) {
  std::string svg = "<g class=\"grid\">\n";
  for (double tick : plane.y.Ticks(6))
    svg += fmt::format("<path d=\"M{0} {1:.1f}H{2}\"/><text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
                       kLeft, plane.Y(tick), kWidth - kRight, kLeft - 8, plane.Y(tick) + 4, TickText(tick));
  for (double tick : plane.x.Ticks(6, /*whole=*/true))
    svg += fmt::format("<path d=\"M{0:.1f} {1}v5\"/><text x=\"{0:.1f}\" y=\"{2}\" text-anchor=\"middle\">{3}</text>\n",
                       plane.X(tick), kHeight - kBottom, kHeight - kBottom + 24, TickText(tick));
  return svg + "</g>\n";
}

std::string AxisNames(const Chart& chart) {
  return fmt::format(
      "<g class=\"axis\"><text x=\"8\" y=\"20\">{}</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text></g>\n",
      EscapeHtml(chart.unit), kWidth - kRight, kHeight - 8, chart.x);
}

// Returns the buckets that have values. A bucket with only missing values starts a new piece.
std::vector<std::vector<Bucket>> Pieces(const Series& series) {
  std::vector<std::vector<Bucket>> pieces(1);
  for (const Bucket& bucket : series.buckets()) {
    if (bucket.count > 0) pieces.back().push_back(bucket);
    if (bucket.count == 0 && bucket.missing > 0 && !pieces.back().empty()) pieces.emplace_back();
  }
  return pieces;
}

std::string Line(const std::vector<Bucket>& piece, const Plane& plane, const char* attributes = "") {
  std::string points;
  for (const Bucket& b : piece) points += fmt::format("{:.1f},{:.1f} ", plane.X(b.step()), plane.Y(b.mean()));
  return fmt::format("<polyline{} points=\"{}\"/>\n", attributes, points);
}

std::string Band(const std::vector<Bucket>& piece, const Plane& plane) {
  std::string above, below;
  bool wide = false;
  for (const Bucket& b : piece) {
    wide |= b.count > 1;
    above += fmt::format("{:.1f},{:.1f} ", plane.X(b.step()), plane.Y(b.high));
    below = fmt::format("{:.1f},{:.1f} ", plane.X(b.step()), plane.Y(b.low)) + below;
  }
  return wide ? fmt::format("<polygon points=\"{}{}\"/>\n", above, below) : "";
}

std::string Points(const Series& series, const Plane& plane, const char* x) {
  Bucket whole = series.Whole();
  if (whole.count > kMostPoints) return "";
  std::string svg;
  for (const Bucket& b : series.buckets())
    if (b.count == 1)
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} {}: {:.6g}</title></circle>\n",
                         plane.X(b.step()), plane.Y(b.mean()), x, b.step(), b.mean());
  return svg;
}

std::string CurveSvg(const Curve& curve, const Plane& plane, const char* x) {
  std::string svg = fmt::format("<g class=\"c{}{}\">\n", curve.color, curve.is_validation ? " validation" : "");
  std::string bands, lines;
  for (const std::vector<Bucket>& piece : Pieces(*curve.series)) {
    if (curve.is_validation) {
      lines += Line(piece, plane);
      continue;
    }
    bands += Band(piece, plane);
    lines += Line(piece, plane, " class=\"raw\"") + Line(Smoothed(piece), plane);
  }
  return svg + bands + lines + Points(*curve.series, plane, x) + "</g>\n";
}

}  // namespace

std::string Svg(const Chart& chart, const std::string& attributes) {
  std::optional<Plane> plane = PlaneOf(chart);
  if (!plane) return "";
  std::string svg = fmt::format("<svg {}viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}{}", attributes,
                                kWidth, kHeight, EscapeHtml(chart.title), Grid(*plane), AxisNames(chart));
  for (bool validation : {false, true})
    for (const Curve& curve : chart.curves)
      if (curve.is_validation == validation) svg += CurveSvg(curve, *plane, chart.x);
  return svg + "</svg>\n";
}

}  // namespace weft
