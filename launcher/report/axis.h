// Axis: where values lie on an axis of a chart, and the round numbers beside it.
#pragma once
#include <string>
#include <vector>

namespace weft {

class Axis {
 public:
  // Of values from low to high, which may be one; a logarithmic one if so asked, of values above 0.
  Axis(double low, double high, bool logarithmic = false);
  double At(double value) const;  // 0 at its low end, 1 at its high one
  bool logarithmic() const { return logarithmic_; }
  std::vector<double> Ticks(int most) const;  // round numbers within it, about so many

 private:
  std::vector<double> Decades() const;

  bool logarithmic_;
  double low_, high_;  // of the logarithms, where it is logarithmic
};

std::string TickText(double tick);  // "0.05", "12.5K", "3M"

}  // namespace weft
