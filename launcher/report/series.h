// Series: a curve over steps in bounded memory, however many there are: the lowest, highest and mean value of each of
// at most kMostBuckets equal ranges of steps. A range holds one step at first, and twice as many whenever they run out.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

class Series {
 public:
  static constexpr size_t kMostBuckets = 1024;  // about the pixels of a chart

  struct Bucket {
    int64_t count = 0, missing = 0;                   // of finite values, and of others
    double low = 0, high = 0, sum = 0, step_sum = 0;  // of finite values

    double mean() const { return sum / double(count); }
    double step() const { return step_sum / double(count); }
    void Add(double step, double value);
    void Merge(const Bucket& other);
  };

  // Steps from 0, in any order. A value that is not finite is counted as missing.
  void Add(int64_t step, double value);
  const std::vector<Bucket>& buckets() const { return buckets_; }  // by step; some may be empty
  Bucket Whole() const;                                            // all of them as one

 private:
  std::vector<Bucket> buckets_;
  int64_t width_ = 1;  // steps of a bucket
};

}  // namespace weft
