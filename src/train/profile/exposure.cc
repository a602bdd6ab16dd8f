#include "weft/train/profile/exposure.h"

#include <algorithm>

namespace weft {
namespace {

using Span = RunProfile::Span;

// Returns how long the kernels run within a span. They are in order.
int64_t TimeWithin(const std::vector<Span>& kernels, const Span& span) {
  int64_t time = 0;
  auto first = std::partition_point(kernels.begin(), kernels.end(), [&](const Span& k) { return k.end <= span.begin; });
  for (auto k = first; k != kernels.end() && k->begin < span.end; ++k)
    time += std::min(k->end, span.end) - std::max(k->begin, span.begin);
  return time;
}

}  // namespace

std::vector<Exposed> ExposedOf(std::span<const ProfiledBatch> batches, std::span<const int64_t> arrivals) {
  std::vector<Span> kernels;
  std::vector<size_t> collectives;
  for (size_t i = 0; i < batches.size(); i++)
    if (batches[i].is_collective())
      collectives.push_back(i);
    else
      kernels.push_back(batches[i].span);
  std::stable_sort(collectives.begin(), collectives.end(),
                   [&](size_t a, size_t b) { return batches[a].span.begin < batches[b].span.begin; });
  std::vector<Exposed> exposed(batches.size());
  int64_t covered = 0;  // by earlier collectives, up to this time
  for (size_t i : collectives) {
    auto [begin, end] = batches[i].span;
    auto alone = [&, from = std::max(begin, covered)](int64_t to) {
      return to > from ? to - from - TimeWithin(kernels, {from, to}) : 0;
    };
    exposed[i] = {.all = alone(end), .waiting = alone(std::clamp(arrivals[i], begin, end))};
    covered = std::max(covered, end);
  }
  return exposed;
}

}  // namespace weft
