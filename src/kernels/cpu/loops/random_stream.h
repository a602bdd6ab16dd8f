// The random bits of a shard, row by row, as core/base/rng.h and core/ops/random.h define them.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>

#include "weft/core/base/rng.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/philox.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

// The position of a shard's elements in the stream: the first Philox block of a global row, and the local columns. Each
// element takes one Word of a block. The view must outlive the stream.
template <class Word>
class RandomStream {
  static constexpr int64_t kWords = 16 / int64_t(sizeof(Word));  // per block

 public:
  RandomStream(const TensorView& view, uint64_t key, int64_t step, int64_t first_row)
      : view_(view), key_(key), step_(uint64_t(step)) {
    int last = view.rank - 1;
    column_ = view.rank ? view.dim(last).offset : 0;
    blocks_ = CeilDiv(view.rank ? view.dim(last).global : 1, kWords);
    if (view.rank < 2) return;
    int64_t rows_per_element = 1;
    for (int d = 1; d < last; d++) rows_per_element *= view.dim(d).global;
    first_row_ = first_row * rows_per_element;
  }
  int64_t rows() const {
    int64_t n = 1;
    for (int d = 0; d + 1 < view_.rank; d++) n *= view_.dim(d).extent;
    return n;
  }
  int64_t columns() const { return view_.rank ? view_.dim(view_.rank - 1).extent : 1; }

  // Returns the bits of columns [begin, begin + n) of local row r, with n <= kTile. They lie somewhere in `buffer`
  // [kBuffer].
  static constexpr int64_t kBuffer = kTile + kWords + kWords * kPhiloxBatch;
  const Word* Bits(int64_t r, int64_t begin, int64_t n, Word* buffer) const {
    int64_t column = column_ + begin;
    uint64_t block = uint64_t(GlobalRow(r)) * uint64_t(blocks_) + uint64_t(column / kWords);
    int64_t blocks = CeilDiv(column % kWords + n, kWords), i = 0;
    alignas(64) uint32_t batch[4 * kPhiloxBatch];
    for (; blocks - i > kPhiloxBatch / 4; i += kPhiloxBatch) {
      PhiloxBatch(key_, step_, block + uint64_t(i), batch);
      std::memcpy(buffer + kWords * i, batch, sizeof batch);  // lower halves first
    }
    for (; i < blocks; i++) {
      std::array<uint32_t, 4> four = Philox(key_, step_, block + uint64_t(i));
      std::memcpy(buffer + kWords * i, four.data(), sizeof four);
    }
    return buffer + column % kWords;
  }

 private:
  int64_t GlobalRow(int64_t r) const {
    int64_t row = 0, scale = 1;
    for (int d = view_.rank - 2; d >= 0; d--) {
      const DimView& dim = view_.dim(d);
      row += (r % dim.extent + dim.offset) * scale;
      r /= dim.extent;
      scale *= dim.global;
    }
    return first_row_ + row;
  }

  const TensorView& view_;
  uint64_t key_, step_;
  int64_t first_row_ = 0, column_ = 0, blocks_ = 1;
};

}  // namespace weft::cpu
