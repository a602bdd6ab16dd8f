// Cross-entropy over the last dim, its gradient, and the sum of exponentials that a sharded vocabulary needs. The loss
// reads each row twice; sums of exponentials run in f64.
#include <fmt/format.h>

#include "weft/core/ops/loss.h"
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/scalar_math.h"
#include "weft/kernels/cpu/norm/row_sums.h"

namespace weft::cpu {
namespace {

int64_t Columns(const TensorView& x) { return x.dim(x.rank - 1).extent; }
int64_t Slots(const KernelCall& call) {
  int64_t columns = std::max<int64_t>(Columns(call.in[0]), 1), rows = call.in[0].NumElements() / columns;
  return std::clamp<int64_t>(rows * columns / 8192, 1, Threads(call));
}

// Two rows per worker.
size_t Workspace(const KernelCall& call) {
  size_t size = call.in[0].dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  return size_t(Slots(call) * 2 * Columns(call.in[0])) * size;
}

int64_t CheckedTarget(int64_t target, int64_t ignore, int64_t vocab) {
  WEFT_CHECK(
      target == ignore || (target >= 0 && target < vocab),
      fmt::format("cross_entropy: expected targets in [0, {}) or ignore_index {}, got {}", vocab, ignore, target));
  return target;
}

template <class C>
C MaxOf(const C* row, int64_t n) {
  constexpr int64_t kLanes = 16;
  C lanes[kLanes];
  for (C& lane : lanes) lane = -std::numeric_limits<C>::infinity();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; j++) lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];
  for (; i < n; i++) lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
  C largest = lanes[0];
  for (C lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

template <class C>
double LogSumExp(const C* row, int64_t n) {
  C largest = MaxOf(row, n);
  if (!(largest > -std::numeric_limits<C>::infinity())) largest = 0;
  return double(largest) + std::log(SumOf(n, [&](int64_t i) { return exp(row[i] - largest); }));
}

template <class C>
void Forward(const KernelCall& call) {
  const TensorView &logits = call.in[0], &targets = call.in[1], &loss = call.out[0], &lse = call.out[1];
  int64_t columns = Columns(logits), ignore = call.attrs->Int("ignore_index");
  double smoothing = call.attrs->Float("smoothing");
  Rows x_at(logits, logits.rank - 1), target_at(targets, targets.rank), loss_at(loss, loss.rank), lse_at(lse, lse.rank);
  Reader<C> in(logits);
  Reader<int64_t> in_target(targets);
  Writer<C> out_loss(loss), out_lse(lse);
  ParallelSlots(call, x_at.count(), Slots(call), [&](int64_t slot, int64_t begin, int64_t end) {
    C* tile = static_cast<C*>(call.workspace) + slot * 2 * columns;
    for (int64_t r = begin; r < end; r++) {
      const C* row = in.Row(x_at.Offset(r), 1, columns, tile);  // [V]
      int64_t target = CheckedTarget(in_target.At(target_at.Offset(r)), ignore, columns);
      double total = LogSumExp(row, columns), value = 0;
      if (target != ignore) {
        value = total - (1 - smoothing) * double(row[target]);
        if (smoothing != 0) value -= smoothing * SumOf(columns, [&](int64_t i) { return row[i]; }) / double(columns);
      }
      out_loss.Set(loss_at.Offset(r), C(value));
      out_lse.Set(lse_at.Offset(r), C(total));
    }
  });
}

template <class C>
void SumOfExponentials(const KernelCall& call) {
  const TensorView &x = call.in[0], &shift = call.in[1], &sum = call.out[0];
  int64_t columns = Columns(x);
  Rows x_at(x, x.rank - 1), shift_at(shift, shift.rank), sum_at(sum, sum.rank);
  Reader<C> in(x), in_shift(shift);
  Writer<C> out(sum);
  ParallelSlots(call, x_at.count(), Slots(call), [&](int64_t slot, int64_t begin, int64_t end) {
    C* tile = static_cast<C*>(call.workspace) + slot * 2 * columns;
    for (int64_t r = begin; r < end; r++) {
      const C* row = in.Row(x_at.Offset(r), 1, columns, tile);  // [V]
      C down = in_shift.At(shift_at.Offset(r));
      out.Set(sum_at.Offset(r), C(SumOf(columns, [&](int64_t i) { return exp(row[i] - down); })));
    }
  });
}

// The logits may be a shard of the vocabulary: `first` is its first token.
template <class C>
void Backward(const KernelCall& call) {
  const TensorView &logits = call.in[0], &targets = call.in[1], &lse = call.in[2], &dloss = call.in[3],
                   &dx = call.out[0];
  const DimView& vocab = logits.dim(logits.rank - 1);
  int64_t columns = vocab.extent, first = vocab.offset, ignore = call.attrs->Int("ignore_index");
  C smoothing = C(call.attrs->Float("smoothing")), even = smoothing / C(vocab.global);
  Rows x_at(logits, logits.rank - 1), target_at(targets, targets.rank), lse_at(lse, lse.rank),
      dloss_at(dloss, dloss.rank);
  Rows dx_at(dx, dx.rank - 1);
  Reader<C> in(logits), in_lse(lse), in_dloss(dloss);
  Reader<int64_t> in_target(targets);
  Writer<C> out(dx);
  ParallelSlots(call, x_at.count(), Slots(call), [&](int64_t slot, int64_t begin, int64_t end) {
    C *tile = static_cast<C*>(call.workspace) + slot * 2 * columns, *tile_out = tile + columns;
    for (int64_t r = begin; r < end; r++) {
      const C* row = in.Row(x_at.Offset(r), 1, columns, tile);  // [V]
      C* result = out.Row(dx_at.Offset(r), 1, tile_out);        // [V]
      int64_t target = CheckedTarget(in_target.At(target_at.Offset(r)), ignore, vocab.global);
      C total = in_lse.At(lse_at.Offset(r)), scale = in_dloss.At(dloss_at.Offset(r));
      if (target == ignore) {
        std::fill(result, result + columns, C(0));
      } else {
        int64_t here = target - first;
        bool held = here >= 0 && here < columns;
        C at_target = held ? exp(row[here] - total) : C(0);
#pragma GCC ivdep
        for (int64_t i = 0; i < columns; i++) result[i] = scale * (exp(row[i] - total) - even);
        if (held) result[here] = scale * (at_target - (1 - smoothing) - even);
      }
      out.Done(result, dx_at.Offset(r), 1, columns);
    }
  });
}

void CrossEntropy(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { Forward<decltype(zero)>(call); });
}
void SumExp(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { SumOfExponentials<decltype(zero)>(call); });
}
void CrossEntropyGrad(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { Backward<decltype(zero)>(call); });
}

}  // namespace

void AddLoss(KernelTable& table) {
  table.Add(Op::kSumExp, {.run = &SumExp, .workspace = &Workspace});
  table.Add(Op::kCrossEntropy, {.run = &CrossEntropy, .workspace = &Workspace});
  // In place: each logit is read before its gradient is written.
  table.Add(Op::kCrossEntropyGrad, {.run = &CrossEntropyGrad, .workspace = &Workspace, .in_place = true});
}

}  // namespace weft::cpu
