// Walks boxes of strided tensors: runs along a nest of loops, rows by number, and work split into pieces.
#pragma once
#include <algorithm>
#include "absl/functional/function_ref.h"

#include "weft/kernels/common/nest.h"

namespace weft::cpu {

// Visits the steps [begin, end) of a nest as runs of at most `longest` steps along the innermost loop. Calls
// fn(offsets, n) for each run.
template <class Fn>
void ForEachRun(const Nest& nest, int64_t begin, int64_t end, int64_t longest, Fn&& fn) {
  std::array<int64_t, kMaxRank> index{};
  int inner = nest.rank - 1;
  int64_t rest = begin;
  for (int d = inner; d >= 0; d--) {
    index[size_t(d)] = rest % nest.extents[size_t(d)];
    rest /= nest.extents[size_t(d)];
  }
  Offsets at = nest.At(begin);
  while (begin < end) {
    int64_t left = inner < 0 ? 1 : nest.extents[size_t(inner)] - index[size_t(inner)];
    int64_t n = std::min({left, longest, end - begin});
    fn(at, n);
    begin += n;
    if (inner < 0) return;
    index[size_t(inner)] += n;
    for (int o = 0; o < nest.operands; o++) at[size_t(o)] += n * nest.strides[size_t(inner)][size_t(o)];
    for (int d = inner; d > 0 && index[size_t(d)] == nest.extents[size_t(d)]; d--) {
      index[size_t(d)] = 0;
      index[size_t(d - 1)]++;
      for (int o = 0; o < nest.operands; o++)
        at[size_t(o)] +=
            nest.strides[size_t(d - 1)][size_t(o)] - nest.extents[size_t(d)] * nest.strides[size_t(d)][size_t(o)];
    }
  }
}

// The leading `dims` dims of a view as numbered rows. Offset(r) is the element offset at which row r starts.
class Rows {
 public:
  Rows() : nest_(1) {}
  Rows(const TensorView& view, int dims);
  int64_t count() const { return count_; }
  int64_t Offset(int64_t row) const {
    return nest_.rank == 0 ? 0 : nest_.rank == 1 ? row * nest_.strides[0][0] : nest_.At(row)[0];
  }

 private:
  Nest nest_;
  int64_t count_ = 1;
};

// Returns the number of worker threads of a call, or 1 without a context. Workspaces are sized by it, so run a kernel
// in the context that it was sized in, or in one with fewer threads.
int Threads(const KernelCall& call);
// Calls Context::ParallelFor. Without a context, calls fn(0, n).
void ParallelFor(const KernelCall& call, int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> fn);
// Splits [0, n) into at most `slots` pieces and calls fn(slot, begin, end) for each. No other call uses scratch number
// `slot`.
void ParallelSlots(const KernelCall& call, int64_t n, int64_t slots,
                   absl::FunctionRef<void(int64_t, int64_t, int64_t)> fn);

}  // namespace weft::cpu
