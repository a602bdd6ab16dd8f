// Chart: curves over steps as SVG, in classes that a page's style sheet colours.
#pragma once
#include <string>
#include <vector>

#include "launcher/report/series.h"

namespace weft {

struct Curve {
  std::string name;
  const Series* series;
};

struct Chart {
  std::string title;
  std::vector<Curve> curves;        // the first is of class c0, the second of c1
  bool may_be_logarithmic = false;  // where values span decades
};

// A line through the mean of each bucket, with points where there are few, and behind it a band from the lowest to the
// highest value, so that no spike is lost. The line breaks where values are missing. "": there is no value.
std::string Svg(const Chart& chart);

}  // namespace weft
