// The loops over rows that norms share. Statistics and sums over rows run in f64.
//
// A norm is a type with
// - kParts, the number of its parameters, the weight first, and as many statistics per row and sums over rows;
// - Forward, which computes a row and returns its statistics;
// - Backward, which computes a row of dx, and adds to the gradients of the parameters.
#pragma once
#include <array>

#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/scratch.h"
#include "weft/kernels/cpu/norm/row_sums.h"

namespace weft::cpu {

inline int64_t Columns(const TensorView& x) { return x.dim(x.rank - 1).extent; }

// The statistics of all rows, through a Reader or a Writer for each.
template <class Access, size_t kParts>
struct RowStatistics {
  std::array<Rows, kParts> at;
  std::array<Access, kParts> access;
  explicit RowStatistics(const TensorView* views) {
    for (size_t p = 0; p < kParts; p++) at[p] = Rows(views[p], views[p].rank), access[p] = Access(views[p]);
  }
  template <class C>
  std::array<C, kParts> At(int64_t row) const {
    std::array<C, kParts> of_row;
    for (size_t p = 0; p < kParts; p++) of_row[p] = access[p].At(at[p].Offset(row));
    return of_row;
  }
  template <class C>
  void Set(int64_t row, const std::array<C, kParts>& of_row) const {
    for (size_t p = 0; p < kParts; p++) access[p].Set(at[p].Offset(row), of_row[p]);
  }
};

// Scratch: the parameters as C, and two rows per worker.
template <class Norm, class C>
struct NormScratch {
  std::array<C*, Norm::kParts> parameters;
  C* rows;
  size_t bytes;
  int64_t slots;
  NormScratch(const KernelCall& call, void* start) : slots(Threads(call)) {
    Scratch scratch(start);
    int64_t columns = Columns(call.in[0]);
    for (C*& parameter : parameters) parameter = scratch.Take<C>(columns);
    rows = scratch.Take<C>(slots * 2 * columns);
    bytes = scratch.used();
  }
};

template <class Norm, class C>
void RunNorm(const KernelCall& call) {
  const TensorView &x = call.in[0], &y = call.out[0];
  int64_t columns = Columns(x), grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(columns, 1));
  double eps = call.attrs->Float("eps");
  NormScratch<Norm, C> scratch(call, call.workspace);
  for (size_t p = 0; p < Norm::kParts; p++)
    Reader<C>(call.in[1 + p]).Copy(0, call.in[1 + p].dim(0).stride, columns, scratch.parameters[p]);
  Rows x_at(x, x.rank - 1), y_at(y, y.rank - 1);
  Reader<C> in(x);
  Writer<C> out(y);
  RowStatistics<Writer<C>, Norm::kParts> statistics(&call.out[1]);
  ParallelSlots(call, x_at.count(), x_at.count() < grain ? 1 : scratch.slots,
                [&](int64_t slot, int64_t begin, int64_t end) {
                  C *tile_x = scratch.rows + slot * 2 * columns, *tile_y = tile_x + columns;
                  for (int64_t r = begin; r < end; r++) {
                    const C* row = in.Row(x_at.Offset(r), 1, columns, tile_x);  // [C]
                    C* result = out.Row(y_at.Offset(r), 1, tile_y);             // [C]
                    statistics.Set(r, Norm::Forward(row, scratch.parameters, columns, eps, result));
                    out.Done(result, y_at.Offset(r), 1, columns);
                  }
                });
}

// Scratch: the weight, three rows per block, and f64 sums of the gradients of the parameters per block.
template <class Norm, class C>
struct NormGradScratch {
  RowBlocks blocks;
  C *weight, *rows;
  double *partial, *total;
  size_t bytes;
  NormGradScratch(const KernelCall& call, void* start) : blocks(Rows(call.in[0], call.in[0].rank - 1).count()) {
    Scratch scratch(start);
    int64_t columns = Columns(call.in[0]), sums = int64_t(Norm::kParts) * columns;
    weight = scratch.Take<C>(columns);
    rows = scratch.Take<C>(blocks.count * 3 * columns);
    partial = scratch.Take<double>(blocks.count * sums);
    total = scratch.Take<double>(sums);
    bytes = scratch.used();
  }
};

template <class Norm, class C>
void RunNormGrad(const KernelCall& call) {
  const TensorView &x = call.in[0], &weight = call.in[1], &dy = call.in[2 + Norm::kParts], &dx = call.out[0];
  int64_t columns = Columns(x), sums = int64_t(Norm::kParts) * columns;
  NormGradScratch<Norm, C> scratch(call, call.workspace);
  Reader<C>(weight).Copy(0, weight.dim(0).stride, columns, scratch.weight);
  Rows x_at(x, x.rank - 1), dy_at(dy, dy.rank - 1), dx_at(dx, dx.rank - 1);
  RowStatistics<Reader<C>, Norm::kParts> statistics(&call.in[2]);
  Reader<C> in(x), in_dy(dy);
  Writer<C> out(dx);
  const RowBlocks& blocks = scratch.blocks;
  auto add_block = [&](int64_t b) {
    C *tile_x = scratch.rows + b * 3 * columns, *tile_dy = tile_x + columns, *tile_dx = tile_dy + columns;
    double* sum = scratch.partial + b * sums;
    std::fill(sum, sum + sums, 0.0);
    for (int64_t r = b * blocks.block; r < std::min(blocks.rows, (b + 1) * blocks.block); r++) {
      C* result = out.Row(dx_at.Offset(r), 1, tile_dx);
      Norm::Backward(in.Row(x_at.Offset(r), 1, columns, tile_x), scratch.weight,
                     in_dy.Row(dy_at.Offset(r), 1, columns, tile_dy), statistics.template At<C>(r), columns, result,
                     sum);
      out.Done(result, dx_at.Offset(r), 1, columns);
    }
  };
  ParallelFor(call, blocks.count, 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; b++) add_block(b);
  });
  AddUpBlocks(scratch.partial, blocks.count, sums, sums, scratch.total);
  for (size_t p = 0; p < Norm::kParts; p++)
    Writer<double>(call.out[1 + p]).Copy(scratch.total + int64_t(p) * columns, 0, 1, columns);
}

template <class Norm>
void DispatchNorm(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { RunNorm<Norm, decltype(zero)>(call); });
}
template <class Norm>
void DispatchNormGrad(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { RunNormGrad<Norm, decltype(zero)>(call); });
}
template <class Norm, template <class, class> class ScratchOf>
size_t NormWorkspace(const KernelCall& call) {
  return DispatchCompute(call.in[0].dtype,
                         [&](auto zero) { return ScratchOf<Norm, decltype(zero)>(call, nullptr).bytes; });
}

// In place: each row is read before it is written, and the parameters are copied first.
template <class Norm>
void AddNorm(KernelTable& table, Op forward, Op backward) {
  table.Add(forward, {.run = &DispatchNorm<Norm>, .workspace = &NormWorkspace<Norm, NormScratch>, .in_place = true});
  table.Add(backward,
            {.run = &DispatchNormGrad<Norm>, .workspace = &NormWorkspace<Norm, NormGradScratch>, .in_place = true});
}

}  // namespace weft::cpu
