#include "weft/kernels/cuda/plan/norm_sizes.h"

#include <algorithm>

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/plan/rows.h"

namespace weft::cuda {

RowGroups GroupsOf(int64_t columns, int pack, const RowLimits& limits) {
  RowGroups groups;
  if (columns % pack != 0 || columns == 0 || columns / pack > 4 * limits.threads) return groups;
  groups.vectors = int(columns / pack);
  // A row costs a thread about as much as one of its vectors does.
  int64_t least = INT64_MAX;
  for (int n : {1, 2, 3, 4}) {
    int64_t warps = CeilDiv(groups.vectors, n * kWarp), work = warps * (1 + n);
    if (warps * kWarp > limits.threads || work >= least || (n > limits.usual && least != INT64_MAX)) continue;
    least = work, groups.per_thread = n;
  }
  int needed = int(CeilDiv(groups.vectors, groups.per_thread));
  groups.threads = int(RoundUp(needed, kWarp));
  if (needed <= kWarp / 2)
    for (groups.threads = 8; groups.threads < needed;) groups.threads *= 2;
  // Takes several rows, up to 256 threads, if that leaves at least as many threads resident.
  int room = groups.per_thread == 1 ? limits.resident : limits.resident / 2, most = 0;
  for (int rows = 1; rows == 1 || rows * groups.threads <= 256; rows++) {
    int used = room / (groups.threads * rows) * groups.threads * rows;
    if (used >= most) most = used, groups.rows = rows;
  }
  return groups;
}

RowGroups GradGroups(int64_t columns, size_t element) {
  if (element > 4) return {};
  int pack = 16 / int(element);
  RowGroups narrow = GroupsOf(columns, pack, {4, kNarrowGrad, 0});
  if (!narrow.per_thread) return GroupsOf(columns, pack, kGradLimits);
  narrow.rows = kNarrowGrad / narrow.threads;
  return narrow;
}

int64_t GradBlocks(int64_t rows, const RowGroups& groups) {
  if (!groups.per_thread) return std::min(CeilDiv(rows, 4 * kColumnRows), int64_t(2 * kProcessors));
  int64_t threads = groups.per_thread == 1 ? kGradLimits.resident : kGradLimits.resident / 2;
  int64_t residents = IsWide(groups) ? threads / int64_t(groups.block()) : GradResidents(groups.per_thread, false);
  return std::min(CeilDiv(rows, groups.rows), kProcessors * residents);
}

size_t NormWorkspace(const KernelCall& call) { return 2 * size_t(ColumnsOf(call.in[0])) * SizeOf(call.in[1].dtype); }

size_t NormGradWorkspace(const KernelCall& call, bool center) {
  const TensorView& x = call.in[0];
  if (x.NumElements() == 0) return 0;
  int64_t columns = ColumnsOf(x), blocks = GradBlocks(RowCount(x), GradGroups(columns, SizeOf(x.dtype)));
  return size_t(blocks * (center ? 2 : 1) * columns) * SizeOf(AccumulateType(x.dtype));
}

}  // namespace weft::cuda
