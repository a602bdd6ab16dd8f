// Random and Dropout. Numbers depend only on the key, the step and the element's global index (core/base/rng.h).
#include "weft/core/ops/random.h"

#include <cstring>

#include "weft/core/base/rng.h"
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/philox.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {
namespace {

constexpr int64_t kGrain = 4096;

// The position of a shard's elements in the stream: the first Philox block of a global row, and the local columns. Each
// element takes one Word of a block.
template <class Word>
class Stream {
  static constexpr int64_t kWords = 16 / int64_t(sizeof(Word));  // per block

 public:
  Stream(const TensorView& view, uint64_t key, int64_t step, int64_t first_row)
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

// Calls fn(row, first column, n) for tiles of the rows.
template <class Word, class Fn>
void ForEachTile(const KernelCall& call, const Stream<Word>& stream, Fn&& fn) {
  int64_t tiles = CeilDiv(stream.columns(), kTile);
  int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(std::min(kTile, stream.columns()), 1));
  ParallelFor(call, stream.rows() * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t first = i % tiles * kTile;
      fn(i / tiles, first, std::min(kTile, stream.columns() - first));
    }
  });
}

void Random(const KernelCall& call) {
  const TensorView& out = call.out[0];
  using Bits = Stream<uint32_t>;
  Bits stream(out, uint64_t(call.attrs->Int("key")), Reader<int64_t>(call.in[0]).At(0),
              Reader<int64_t>(call.in[1]).At(0));
  bool normal = call.attrs->Text("kind") == "normal";
  Rows at(out, std::max(out.rank - 1, 0));
  Writer<double> y(out);
  ForEachTile(call, stream, [&](int64_t row, int64_t first, int64_t n) {
    uint32_t buffer[Bits::kBuffer];
    double tile[kTile];
    const uint32_t* bits = stream.Bits(row, first, n, buffer);
    for (int64_t i = 0; i < n; i++) tile[i] = normal ? NormalFromBits(bits[i]) : UniformFromBits(bits[i]);
    y.Copy(tile, at.Offset(row) + first, 1, n);
  });
}

template <class C>
void DropoutAs(const KernelCall& call) {
  const TensorView &x = call.in[0], &out = call.out[0];
  using Bits = Stream<uint16_t>;
  Bits stream(out, uint64_t(call.attrs->Int("key")), Reader<int64_t>(call.in[1]).At(0),
              Reader<int64_t>(call.in[2]).At(0));
  double p = call.attrs->Float("p");
  uint32_t threshold = DropoutThreshold(p);
  C scale = C(DropoutScale(p));
  int leading = std::max(out.rank - 1, 0);
  Rows x_at(x, leading), y_at(out, leading);
  int64_t sx = x.rank ? x.dim(leading).stride : 1;
  Reader<C> in(x);
  Writer<C> y(out);
  ForEachTile(call, stream, [&](int64_t row, int64_t first, int64_t n) {
    alignas(64) uint16_t buffer[Bits::kBuffer];
    alignas(64) C tile_x[kTile], tile_y[kTile];
    const uint16_t* bits = stream.Bits(row, first, n, buffer);
    const C* a = in.Row(x_at.Offset(row) + first * sx, sx, n, tile_x);  // [n]
    C* result = y.Row(y_at.Offset(row) + first, 1, tile_y);             // [n]
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) result[i] = bits[i] >= threshold ? a[i] * scale : C(0);
    y.Done(result, y_at.Offset(row) + first, 1, n);
  });
}

void Dropout(const KernelCall& call) {
  DispatchCompute(call.out[0].dtype, [&](auto zero) { DropoutAs<decltype(zero)>(call); });
}

}  // namespace

void AddRandom(KernelTable& table) {
  table.Add(Op::kRandom, {.run = &Random});
  table.Add(Op::kDropout, {.run = &Dropout, .any_strides = true, .in_place = true});
}

}  // namespace weft::cpu
