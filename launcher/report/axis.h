// Axis: the positions of values on an axis of a chart, and the round numbers at its ticks.
#pragma once
#include <string>
#include <vector>

namespace weft {

class Axis {
 public:
  // An axis for values from `low` to `high`, which may be equal. A logarithmic axis requires values above 0.
  Axis(double low, double high, bool logarithmic = false);
  double At(double value) const;  // 0 at the low end, 1 at the high end
  bool logarithmic() const { return logarithmic_; }
  // Returns about `most` round numbers within the axis, whole ones if `whole` is set.
  std::vector<double> Ticks(int most, bool whole = false) const;

 private:
  std::vector<double> Decades() const;

  bool logarithmic_;
  double low_, high_;  // if logarithmic, the decimal logarithms of the ends
};

std::string TickText(double tick);  // "0.05", "12.5K", "3M"

}  // namespace weft
