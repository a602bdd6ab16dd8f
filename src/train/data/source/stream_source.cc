#include "weft/train/data/source/stream_source.h"

#include <algorithm>

#include "weft/core/base/rng.h"

namespace weft {

int64_t StreamSource::Fill(const DataPosition& at, int64_t row, BatchSpan out) const {
  return FillRow(stream_, OffsetOf(at, row), options_.vocab, out);
}

int64_t StreamSource::OffsetOf(const DataPosition& at, int64_t row) const {
  int64_t last = stream_.size() - options_.context - 1;  // the last offset with a target for every token
  int64_t window = options_.unit > 0 ? options_.unit : options_.context, step = std::max<int64_t>(options_.unit, 1);
  if (!options_.shuffle) return at.sequences % (last / window + 1) * window;
  std::array<uint32_t, 4> bits = Philox(options_.key, uint64_t(at.step), uint64_t(row));
  return Below(last / step + 1, uint64_t(bits[0]) << 32 | bits[1]) * step;
}

}  // namespace weft
