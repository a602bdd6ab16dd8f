// Smoothing: the mean of a curve over a window of steps, so that the trend is visible despite the noise of single
// steps.
#pragma once
#include <vector>

#include "launcher/report/series.h"

namespace weft {

// Returns as many buckets, each with the mean of the buckets around it, weighted by their numbers of values. The window
// is a tenth of the curve. It is always centred, so it becomes shorter towards the ends, and the first and last values
// do not change. Requires that all buckets have values.
std::vector<Series::Bucket> Smoothed(const std::vector<Series::Bucket>& buckets);

}  // namespace weft
