// Chart: curves over steps as SVG, in classes that a page's style sheet colours. Legible from 320 pixels of width on.
#pragma once
#include <string>
#include <vector>

#include "launcher/report/series.h"

namespace weft {

struct Curve {
  std::string name;
  const Series* series;
  int color = 0;               // class "c0" and so on
  bool is_validation = false;  // drawn above all others, dashed, with points
};

struct Chart {
  std::string title;
  std::string unit;  // of the vertical axis: "nats per token"
  std::vector<Curve> curves;
  bool may_be_logarithmic = false;  // where values span decades
};

// A smoothed line over a pale one through the mean of each bucket, with points where there are few. Behind them lies a
// band from the lowest to the highest value, so that no spike is lost. Lines break where values are missing. Validation
// is drawn last. "": there is no value.
std::string Svg(const Chart& chart);

}  // namespace weft
