// Embedding and the gradient of its table.
#include "weft/core/ops/embedding.h"

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/strided.h"

#include <cstring>

namespace weft::cpu {
namespace {

void Embedding(const KernelCall& call) {
  const TensorView &table = call.in[0], &ids = call.in[1], &out = call.out[0];
  Rows id_at(ids, ids.rank), out_at(out, out.rank - 1);
  Reader<int64_t> id(ids);
  const DimView &rows = table.dim(0), &columns = table.dim(1);
  size_t size = SizeOf(table.dtype), row_bytes = size_t(columns.extent) * size;  // the last dim is contiguous
  int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(columns.extent, 1));
  ParallelFor(call, id_at.count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      int64_t row = id.At(id_at.Offset(i)) - rows.offset;
      char* y = out.as<char>() + out_at.Offset(i) * int64_t(size);
      if (row >= 0 && row < rows.extent)
        std::memcpy(y, table.as<char>() + row * rows.stride * int64_t(size), row_bytes);
      else
        std::memset(y, 0, row_bytes);
    }
  });
}

// Workspace: the index at which the positions of each row start [V + 1], then the positions, sorted by row and in order
// within a row [N].
struct Sorted {
  int64_t *start, *position;
};
size_t EmbeddingGradWorkspace(const KernelCall& call) {
  return size_t(call.out[0].dim(0).extent + 2 + call.in[0].NumElements()) * sizeof(int64_t);
}

// A counting sort. It is stable, so that each row is summed in order of position for any number of threads.
Sorted SortByRow(const KernelCall& call) {
  const TensorView& ids = call.in[0];
  const DimView& rows = call.out[0].dim(0);
  Rows id_at(ids, ids.rank);
  Reader<int64_t> id(ids);
  int64_t* counts = static_cast<int64_t*>(call.workspace);  // [V + 2]; row v is counted at v + 2
  int64_t* position = counts + rows.extent + 2;             // [N]
  std::fill(counts, counts + rows.extent + 2, 0);
  auto row_of = [&](int64_t i) { return id.At(id_at.Offset(i)) - rows.offset; };
  for (int64_t i = 0; i < id_at.count(); i++)
    if (int64_t row = row_of(i); row >= 0 && row < rows.extent) counts[row + 2]++;
  for (int64_t v = 2; v < rows.extent + 2; v++) counts[v] += counts[v - 1];
  for (int64_t i = 0; i < id_at.count(); i++)
    if (int64_t row = row_of(i); row >= 0 && row < rows.extent) position[counts[row + 1]++] = i;
  return {counts, position};
}

template <class C>
void EmbeddingGradAs(const KernelCall& call) {
  const TensorView &dy = call.in[1], &out = call.out[0];
  Sorted sorted = SortByRow(call);
  Rows dy_at(dy, dy.rank - 1);
  Reader<C> x(dy);
  Writer<C> y(out);
  int64_t columns = out.dim(1).extent;
  int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(columns, 1));
  ParallelFor(call, out.dim(0).extent, grain, [&](int64_t begin, int64_t end) {
    alignas(64) C tile[kTile];
    alignas(64) double sum[kTile];
    for (int64_t v = begin; v < end; v++)
      for (int64_t c = 0; c < columns; c += kTile) {
        int64_t n = std::min(kTile, columns - c);
        std::fill(sum, sum + n, 0.0);
        for (int64_t p = sorted.start[v]; p < sorted.start[v + 1]; p++) {
          const C* row = x.Row(dy_at.Offset(sorted.position[p]) + c, 1, n, tile);  // [n]
          for (int64_t i = 0; i < n; i++) sum[i] += row[i];
        }
        for (int64_t i = 0; i < n; i++) tile[i] = C(sum[i]);
        y.Copy(tile, v * out.dim(0).stride + c, 1, n);
      }
  });
}

void EmbeddingGrad(const KernelCall& call) {
  if (call.out[0].NumElements() == 0) return;
  DispatchCompute(call.out[0].dtype, [&](auto zero) { EmbeddingGradAs<decltype(zero)>(call); });
}

}  // namespace

void AddEmbedding(KernelTable& table) {
  table.Add(Op::kEmbedding, {.run = &Embedding});
  table.Add(Op::kEmbeddingGrad, {.run = &EmbeddingGrad, .workspace = &EmbeddingGradWorkspace});
}

}  // namespace weft::cpu
