#include "weft/core/host/bounds.h"

#include <fmt/format.h>

#include <cmath>

namespace weft {

bool Within(const Bounds& bounds, double value) {
  bool low = bounds.low_open ? value > bounds.low : value >= bounds.low;
  bool high = bounds.high_open ? value < bounds.high : value <= bounds.high;
  return low && high && std::isfinite(value);
}

std::string BoundsText(const Bounds& bounds) {
  bool has_low = bounds.low > -std::numeric_limits<double>::infinity();
  bool has_high = bounds.high < std::numeric_limits<double>::infinity();
  std::string low = has_low ? fmt::format(" {} {}", bounds.low_open ? ">" : ">=", bounds.low) : "";
  std::string high = has_high ? fmt::format(" {} {}", bounds.high_open ? "<" : "<=", bounds.high) : "";
  return low + (has_low && has_high ? " and" : "") + high;
}

}  // namespace weft
