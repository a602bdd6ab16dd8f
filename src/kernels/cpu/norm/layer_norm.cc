// LayerNorm and its gradient. Statistics and sums over rows run in f64.
#include <cmath>

#include "weft/core/ops/norm.h"

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/scratch.h"
#include "weft/kernels/cpu/norm/row_sums.h"

namespace weft::cpu {
namespace {

int64_t Columns(const TensorView& x) { return x.dim(x.rank - 1).extent; }
int64_t Grain(int64_t columns) { return std::max<int64_t>(1, 8192 / std::max<int64_t>(columns, 1)); }

// Scratch: weight and bias as C, and two rows per worker.
template <class C>
struct ForwardScratch {
  C *weight, *bias, *rows;
  size_t bytes;
  int64_t slots;
  explicit ForwardScratch(const KernelCall& call, void* start) : slots(Threads(call)) {
    Scratch scratch(start);
    int64_t columns = Columns(call.in[0]);
    weight = scratch.Take<C>(columns);
    bias = scratch.Take<C>(columns);
    rows = scratch.Take<C>(slots * 2 * columns);
    bytes = scratch.used();
  }
};

template <class C>
void Forward(const KernelCall& call) {
  const TensorView &x = call.in[0], &y = call.out[0], &mean = call.out[1], &rstd = call.out[2];
  int64_t columns = Columns(x);
  double eps = call.attrs->Float("eps");
  ForwardScratch<C> scratch(call, call.workspace);
  Reader<C>(call.in[1]).Copy(0, call.in[1].dim(0).stride, columns, scratch.weight);
  Reader<C>(call.in[2]).Copy(0, call.in[2].dim(0).stride, columns, scratch.bias);
  Rows x_at(x, x.rank - 1), y_at(y, y.rank - 1), mean_at(mean, mean.rank), rstd_at(rstd, rstd.rank);
  Reader<C> in(x);
  Writer<C> out(y), out_mean(mean), out_rstd(rstd);
  ParallelSlots(call, x_at.count(), x_at.count() < Grain(columns) ? 1 : scratch.slots,
                [&](int64_t slot, int64_t begin, int64_t end) {
                  C *tile_x = scratch.rows + slot * 2 * columns, *tile_y = tile_x + columns;
                  const C *weight = scratch.weight, *bias = scratch.bias;
                  for (int64_t r = begin; r < end; r++) {
                    const C* row = in.Row(x_at.Offset(r), 1, columns, tile_x);  // [C]
                    double center = SumOf(columns, [&](int64_t i) { return row[i]; }) / double(columns);
                    C shift = C(center);
                    double variance =
                        SumOf(columns,
                              [&](int64_t i) { return (double(row[i]) - center) * (double(row[i]) - center); }) /
                        double(columns);
                    C scale = C(1 / std::sqrt(variance + eps));
                    C* result = out.Row(y_at.Offset(r), 1, tile_y);  // [C]
#pragma GCC ivdep
                    for (int64_t i = 0; i < columns; i++) result[i] = (row[i] - shift) * scale * weight[i] + bias[i];
                    out.Done(result, y_at.Offset(r), 1, columns);
                    out_mean.Set(mean_at.Offset(r), shift);
                    out_rstd.Set(rstd_at.Offset(r), scale);
                  }
                });
}

size_t ForwardWorkspace(const KernelCall& call) {
  return DispatchCompute(call.in[0].dtype,
                         [&](auto zero) { return ForwardScratch<decltype(zero)>(call, nullptr).bytes; });
}

// Scratch: the weight, three rows per block, and f64 sums of dweight and dbias per block.
template <class C>
struct BackwardScratch {
  RowBlocks blocks;
  C *weight, *rows;
  double *partial, *total;
  size_t bytes;
  BackwardScratch(const KernelCall& call, void* start) : blocks(Rows(call.in[0], call.in[0].rank - 1).count()) {
    Scratch scratch(start);
    int64_t columns = Columns(call.in[0]);
    weight = scratch.Take<C>(columns);
    rows = scratch.Take<C>(blocks.count * 3 * columns);
    partial = scratch.Take<double>(blocks.count * 2 * columns);
    total = scratch.Take<double>(2 * columns);
    bytes = scratch.used();
  }
};

// With h = (x - mean) * rstd: dx = rstd * (w dy - mean(w dy) - h * mean(w dy h)), dweight = sum of dy h, dbias = sum of
// dy.
template <class C>
void BackwardRow(const C* x, const C* weight, const C* dy, C mean, C rstd, int64_t columns, C* dx, double* dweight,
                 double* dbias) {
  double dot = SumOf(columns, [&](int64_t i) { return double((x[i] - mean) * rstd) * double(weight[i] * dy[i]); });
  double sum = SumOf(columns, [&](int64_t i) { return weight[i] * dy[i]; });
  C along = C(dot / double(columns)), offset = C(sum / double(columns));
  for (int64_t i = 0; i < columns; i++) dweight[i] += double(dy[i] * ((x[i] - mean) * rstd));
  for (int64_t i = 0; i < columns; i++) dbias[i] += double(dy[i]);
#pragma GCC ivdep
  for (int64_t i = 0; i < columns; i++) dx[i] = rstd * (weight[i] * dy[i] - offset - (x[i] - mean) * rstd * along);
}

template <class C>
void Backward(const KernelCall& call) {
  const TensorView &x = call.in[0], &mean = call.in[2], &rstd = call.in[3], &dy = call.in[4], &dx = call.out[0];
  int64_t columns = Columns(x);
  BackwardScratch<C> scratch(call, call.workspace);
  Reader<C>(call.in[1]).Copy(0, call.in[1].dim(0).stride, columns, scratch.weight);
  Rows x_at(x, x.rank - 1), mean_at(mean, mean.rank), rstd_at(rstd, rstd.rank), dy_at(dy, dy.rank - 1),
      dx_at(dx, dx.rank - 1);
  Reader<C> in(x), in_mean(mean), in_rstd(rstd), in_dy(dy);
  Writer<C> out(dx);
  const RowBlocks& blocks = scratch.blocks;
  ParallelFor(call, blocks.count, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; b++) {
      C *tile_x = scratch.rows + b * 3 * columns, *tile_dy = tile_x + columns, *tile_dx = tile_dy + columns;
      double* sum = scratch.partial + b * 2 * columns;
      std::fill(sum, sum + 2 * columns, 0.0);
      for (int64_t r = b * blocks.block; r < std::min(blocks.rows, (b + 1) * blocks.block); r++) {
        C* result = out.Row(dx_at.Offset(r), 1, tile_dx);
        BackwardRow(in.Row(x_at.Offset(r), 1, columns, tile_x), scratch.weight,
                    in_dy.Row(dy_at.Offset(r), 1, columns, tile_dy), in_mean.At(mean_at.Offset(r)),
                    in_rstd.At(rstd_at.Offset(r)), columns, result, sum, sum + columns);
        out.Done(result, dx_at.Offset(r), 1, columns);
      }
    }
  });
  AddUpBlocks(scratch.partial, blocks.count, 2 * columns, 2 * columns, scratch.total);
  Writer<double>(call.out[1]).Copy(scratch.total, 0, 1, columns);
  Writer<double>(call.out[2]).Copy(scratch.total + columns, 0, 1, columns);
}

size_t BackwardWorkspace(const KernelCall& call) {
  return DispatchCompute(call.in[0].dtype,
                         [&](auto zero) { return BackwardScratch<decltype(zero)>(call, nullptr).bytes; });
}

void LayerNorm(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { Forward<decltype(zero)>(call); });
}
void LayerNormGrad(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { Backward<decltype(zero)>(call); });
}

}  // namespace

void AddLayerNorm(KernelTable& table) {
  // In place: each row is read before it is written, and the weights are copied first.
  table.Add(Op::kLayerNorm, {.run = &LayerNorm, .workspace = &ForwardWorkspace, .in_place = true});
  table.Add(Op::kLayerNormGrad, {.run = &LayerNormGrad, .workspace = &BackwardWorkspace, .in_place = true});
}

}  // namespace weft::cpu
