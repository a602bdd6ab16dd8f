#include "launcher/report/series.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft {

void Series::Bucket::Add(double step, double value) {
  bool finite = std::isfinite(value);
  Merge(finite ? Bucket{.count = 1, .low = value, .high = value, .sum = value, .step_sum = step}
               : Bucket{.missing = 1});
}

void Series::Bucket::Merge(const Bucket& other) {
  missing += other.missing;
  if (other.count == 0) return;
  low = count ? std::min(low, other.low) : other.low;
  high = count ? std::max(high, other.high) : other.high;
  count += other.count;
  sum += other.sum;
  step_sum += other.step_sum;
}

void Series::Add(int64_t step, double value) {
  while (size_t(step / width_) >= kMostBuckets) MergePairs();
  auto index = size_t(step / width_);
  if (index >= buckets_.size()) buckets_.resize(index + 1);
  buckets_[index].Add(double(step), value);
}

void Series::MergePairs() {
  for (size_t i = 0; i < buckets_.size(); i++) {
    Bucket bucket = std::exchange(buckets_[i], {});
    buckets_[i / 2].Merge(bucket);
  }
  buckets_.resize((buckets_.size() + 1) / 2);
  width_ *= 2;
}

Series Series::Coarser(size_t most) const {
  Series series = *this;
  while (series.buckets_.size() > most) series.MergePairs();
  return series;
}

Series::Bucket Series::Whole() const {
  Bucket whole;
  for (const Bucket& bucket : buckets_) whole.Merge(bucket);
  return whole;
}

}  // namespace weft
