#include "weft/train/data/source/mixture_source.h"

#include <algorithm>
#include <cmath>

#include "weft/core/base/hash.h"
#include "weft/core/base/rng.h"

namespace weft {

MixtureSource::MixtureSource(std::vector<Part> parts, uint64_t key) : parts_(std::move(parts)), key_(key) {
  double total = 0, sum = 0;
  for (const Part& part : parts_) total += part.weight;
  for (size_t s = 0; s + 1 < parts_.size(); s++) {
    sum += parts_[s].weight;
    double share =
        std::min(sum / total, std::nextafter(1.0, 0.0));  // with very different weights the sum may round to 1
    ends_.push_back(uint64_t(std::ldexp(share, 64)));
  }
}

size_t MixtureSource::Pick(int64_t i) const {
  std::array<uint32_t, 4> bits = Philox(key_, uint64_t(i), 0);
  uint64_t draw = uint64_t(bits[0]) << 32 | bits[1];
  return size_t(std::upper_bound(ends_.begin(), ends_.end(), draw) - ends_.begin());
}

// Each source is read as by a run with batches of one sequence.
int64_t MixtureSource::Fill(const DataPosition& at, int64_t, BatchSpan out) const {
  size_t s = Pick(at.sequences);
  return parts_[s].source->Fill({.step = at.of_source[s], .sequences = at.of_source[s]}, 0, out);
}

void MixtureSource::Skip(int64_t sequences, DataPosition& at) const {
  for (int64_t end = at.sequences + sequences; at.sequences < end; at.sequences++) at.of_source[Pick(at.sequences)]++;
}

uint64_t MixtureSource::Hash() const {
  StableHash hash;
  for (uint64_t end : ends_) hash.Mix(end);
  for (const Part& part : parts_) hash.Mix(part.source->Hash());
  return hash.value();
}

}  // namespace weft
