// Chart: curves over steps or ranks as SVG. The style sheet of the page colours its classes. It is legible at widths of
// 320 pixels and more.
#pragma once
#include <string>
#include <vector>

#include "launcher/report/series.h"

namespace weft {

// Size of the drawing, which a browser scales.
inline constexpr int kChartWidth = 640, kChartHeight = 320;

struct Curve {
  std::string name;
  const Series* series;
  int color = 0;               // of class "c0", "c1", ...
  bool is_validation = false;  // drawn dashed, above all other curves
};

struct Chart {
  std::string title;
  std::string unit;  // of the vertical axis: "nats per token"
  std::vector<Curve> curves;
  bool may_be_logarithmic = false;          // if values span decades, the vertical axis is logarithmic
  const char *x = "step", *over = "steps";  // the unit of the horizontal axis
  bool from_zero = false;                   // the vertical axis begins at 0
};

// Returns the chart as an SVG element with these attributes before its own, or "" if no curve has a value.
// - A curve is a smoothed line over a pale line through the mean of each bucket.
// - A band below them spans the lowest to the highest value, so that every spike is visible.
// - A validation curve is one line without smoothing or a band. It is drawn last.
// - A curve of few values also shows them as points.
// - Lines break where values are missing.
std::string Svg(const Chart& chart, const std::string& attributes = "");

}  // namespace weft
