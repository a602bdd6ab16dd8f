// Full and Iota: tensors that depend only on their attributes and global indices.
#include "weft/core/ops/leaf.h"

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/copy.h"

namespace weft::cpu {
namespace {

void Full(const KernelCall& call) {
  const TensorView& out = call.out[0];
  alignas(8) char value[8] = {};
  TensorView one = out;
  one.data = value;
  for (DimView& dim : one.dims) dim.stride = 0;
  // The attribute is a double, so integers above 2^53 may be inexact in any case.
  Writer<double>(one).Set(0, call.attrs->Float("value"));
  CopyBox(call, out, one);
}

void Iota(const KernelCall& call) {
  const TensorView& out = call.out[0];
  int dim = int(call.attrs->Int("dim"));
  Nest nest(2);  // operand 0: the element, 1: its index along dim
  for (int d = 0; d < out.rank; d++) nest.Add(out.dim(d).extent, {out.dim(d).stride, d == dim});
  nest.Collapse();
  Writer<int64_t> y(out);
  int64_t first = out.dim(dim).offset, sy = nest.inner_stride(0), step = nest.rank ? nest.inner_stride(1) : 0;
  ParallelFor(call, nest.Count(), 16384, [&](int64_t begin, int64_t end) {
    alignas(64) int64_t tile[kTile];
    ForEachRun(nest, begin, end, kTile, [&](const Offsets& at, int64_t n) {
      for (int64_t i = 0; i < n; i++) tile[i] = first + at[1] + i * step;
      y.Copy(tile, at[0], sy, n);
    });
  });
}

}  // namespace

void AddGenerators(KernelTable& table) {
  table.Add(Op::kFull, {.run = &Full});
  table.Add(Op::kIota, {.run = &Iota});
}

}  // namespace weft::cpu
