// Smoothing: the mean of a curve over a window of steps, so that its course shows through the noise of single steps.
#pragma once
#include <vector>

#include "launcher/report/series.h"

namespace weft {

// The same number of buckets, each with the mean of the buckets around it, weighted by their values. The window is a
// tenth of the curve, and shorter towards its ends, where it stays centred: the first and the last value are exact. All
// buckets hold values.
std::vector<Series::Bucket> Smoothed(const std::vector<Series::Bucket>& buckets);

}  // namespace weft
