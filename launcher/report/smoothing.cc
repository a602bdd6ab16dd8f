#include "launcher/report/smoothing.h"

#include <algorithm>

namespace weft {

std::vector<Series::Bucket> Smoothed(const std::vector<Series::Bucket>& buckets) {
  std::vector<double> counts{0}, sums{0};  // prefix sums over the buckets
  for (const Series::Bucket& bucket : buckets) {
    counts.push_back(counts.back() + double(bucket.count));
    sums.push_back(sums.back() + bucket.sum);
  }
  std::vector<Series::Bucket> smooth = buckets;
  size_t most = buckets.size() / 20;  // of neighbours on either side
  for (size_t i = 0; i < buckets.size(); i++) {
    size_t side = std::min({most, i, buckets.size() - 1 - i}), begin = i - side, end = i + side + 1;
    double mean = (sums[end] - sums[begin]) / (counts[end] - counts[begin]);
    smooth[i].low = smooth[i].high = mean;
    smooth[i].sum = mean * double(smooth[i].count);
  }
  return smooth;
}

}  // namespace weft
