#include "launcher/report/axis.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace weft {

Axis::Axis(double low, double high, bool logarithmic)
    : logarithmic_(logarithmic),
      low_(logarithmic ? std::log10(low) : low),
      high_(logarithmic ? std::log10(high) : high) {
  if (high_ > low_) return;
  double margin = low_ == 0 ? 1 : std::abs(low_) / 2;  // one value lies in the middle
  low_ -= margin;
  high_ += margin;
}

double Axis::At(double value) const { return ((logarithmic_ ? std::log10(value) : value) - low_) / (high_ - low_); }

std::vector<double> Axis::Ticks(int most, bool whole) const {
  if (logarithmic_) return Decades();
  double least = (high_ - low_) / most, ten = std::pow(10, std::floor(std::log10(least)));
  double step = 10 * ten;
  for (double round : {5, 2, 1})
    if (round * ten >= least) step = round * ten;
  if (whole) step = std::max(step, 1.0);
  std::vector<double> ticks;
  for (double i = std::ceil(low_ / step); i * step <= high_ && ticks.size() <= size_t(most); i++)
    ticks.push_back(i * step);
  return ticks;
}

// Returns powers of ten, or every nth power if there are many. If there are few, adds their multiples by 2 and 5.
std::vector<double> Axis::Decades() const {
  std::vector<double> ticks;
  auto first = int(std::floor(low_)), last = int(std::ceil(high_)), every = std::max(1, (last - first) / 6);
  for (int decade = first; decade <= last; decade += every)
    for (double digit : {1, 2, 5}) {
      double tick = digit * std::pow(10, decade), at = std::log10(tick);
      if ((digit == 1 || last - first <= 3) && at >= low_ && at <= high_) ticks.push_back(tick);
    }
  return ticks;
}

std::string TickText(double tick) {
  for (auto [unit, name] : {std::pair{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}})
    if (std::abs(tick) >= std::max(unit, 1e4)) return fmt::format("{:.6g}{}", tick / unit, name);
  return fmt::format("{:.6g}", tick);
}

}  // namespace weft
