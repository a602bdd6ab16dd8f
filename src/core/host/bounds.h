// Bounds of a number that users give.
#pragma once
#include <limits>
#include <string>

namespace weft {

// Bounds are inclusive unless marked open.
struct Bounds {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
};

// Whether the value is finite and within the bounds.
bool Within(const Bounds& bounds, double value);
// Returns " >= 0 and < 1", or "" if there are none.
std::string BoundsText(const Bounds& bounds);

}  // namespace weft
