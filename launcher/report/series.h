// Series: a curve over any number of steps in bounded memory. It keeps the lowest, highest and mean value of each of at
// most kMostBuckets equal ranges of steps. A range is one step long at first. Whenever the ranges do not suffice, their
// length doubles.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

class Series {
 public:
  static constexpr size_t kMostBuckets = 1024;  // about the width of a chart in pixels

  struct Bucket {
    int64_t count = 0, missing = 0;                   // the numbers of finite values and of other values
    double low = 0, high = 0, sum = 0, step_sum = 0;  // of finite values

    double mean() const { return sum / double(count); }
    double step() const { return step_sum / double(count); }
    void Add(double step, double value);
    void Merge(const Bucket& other);
  };

  // Steps count from 0 and may come in any order. A value that is not finite counts as missing.
  void Add(int64_t step, double value);
  const std::vector<Bucket>& buckets() const { return buckets_; }  // in order of steps; some may be empty
  Bucket Whole() const;                                            // all buckets merged
  Series Coarser(size_t most) const;                               // neighbours merged, to at most `most` buckets

 private:
  void MergePairs();

  std::vector<Bucket> buckets_;
  int64_t width_ = 1;  // steps per bucket
};

}  // namespace weft
