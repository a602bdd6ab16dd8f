// Random and Dropout. Numbers depend only on the key, the step and the element's global index (core/base/rng.h).
#include "weft/core/ops/random.h"

#include "weft/core/base/rng.h"
#include "weft/kernels/common/random_view.h"
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/random_stream.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {
namespace {

constexpr int64_t kGrain = 4096;

// Calls fn(row, first column, n) for tiles of the rows.
template <class Word, class Fn>
void ForEachTile(const KernelCall& call, const RandomStream<Word>& stream, Fn&& fn) {
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
  using Bits = RandomStream<uint32_t>;
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
  const TensorView &x = call.in[0], &out = call.out[0], whole = InWhole(out, *call.attrs);
  using Bits = RandomStream<uint16_t>;
  Bits stream(whole, uint64_t(call.attrs->Int("key")), Reader<int64_t>(call.in[1]).At(0),
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
