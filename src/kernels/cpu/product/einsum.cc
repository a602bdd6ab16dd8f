// Einsum as matrix products. einsum_plan.h describes how they are split.
#include "weft/core/ops/einsum.h"

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/copy.h"
#include "weft/kernels/cpu/product/einsum_plan.h"
#include "weft/kernels/cpu/product/gemm_bf16.h"
#include "weft/kernels/cpu/product/gemm_use.h"

namespace weft::cpu {
namespace {

int64_t StrideOf(const Nest& nest) { return nest.rank ? nest.strides[0][0] : 1; }

// Copies rows [begin, end) and all columns densely into `to`, with the tensor's contiguous group innermost.
template <class C>
Matrix<const C> Pack(const Reader<C>& x, int64_t base, const Nest& rows, int64_t begin, int64_t end,
                     const Nest& columns, C* to) {
  int64_t count = columns.Count(), height = end - begin;
  bool rows_contiguous = rows.rank && rows.inner_stride(0) == 1,
       columns_contiguous = columns.rank && columns.inner_stride(0) == 1;
  if (!rows_contiguous || columns_contiguous) {
    for (int64_t i = begin; i < end; i++) {
      C* line = to + (i - begin) * count;
      int64_t at_row = base + rows.At(i)[0];
      ForEachRun(columns, 0, count, count, [&](const Offsets& at, int64_t n) {
        x.Copy(at_row + at[0], columns.inner_stride(0), n, line);
        line += n;
      });
    }
    return {to, count, 1};  // [rows, columns]
  }
  for (int64_t j = 0; j < count; j++) {
    C* line = to + j * height;
    int64_t at_column = base + columns.At(j)[0];
    ForEachRun(rows, begin, end, height, [&](const Offsets& at, int64_t n) {
      x.Copy(at_column + at[0], rows.inner_stride(0), n, line);
      line += n;
    });
  }
  return {to, 1, height};  // [columns, rows]
}

template <class C>
void Unpack(const Writer<C>& y, int64_t base, const Nest& rows, int64_t row, int64_t height, const Nest& columns,
            int64_t column, int64_t width, const C* from) {
  for (int64_t i = 0; i < height; i++) {
    const C* line = from + i * width;
    int64_t at_row = base + rows.At(row + i)[0];
    ForEachRun(columns, column, column + width, width, [&](const Offsets& at, int64_t n) {
      y.Copy(line, at_row + at[0], columns.inner_stride(0), n);
      line += n;
    });
  }
}

template <class C>
struct Operands {
  Reader<C> a, b;
  Writer<C> out;
  const C *a_data, *b_data;
  C* out_data;
};

// The position and size of one block of a plan.
struct Block {
  int64_t column_task, row, column, height, width;
  Offsets at;  // offsets of the batch

  Block(const EinsumPlan& plan, int64_t task)
      : column_task(task / plan.BlocksM()),
        row(task % plan.BlocksM() * plan.block_m),
        column(column_task % plan.BlocksN() * plan.block_n),
        height(std::min(plan.block_m, plan.m - row)),
        width(std::min(plan.block_n, plan.n - column)),
        at(plan.batches.At(column_task / plan.BlocksN())) {}
};

// The block's part of the operands and of the result, for those that are used in place.
template <class C>
Matrix<const C> DirectA(const EinsumPlan& plan, const Block& block, const C* data) {
  int64_t stride = StrideOf(plan.m_of_a);
  return {data + block.at[1] + block.row * stride, stride, StrideOf(plan.k_of_a)};  // [height, k]
}
template <class C>
Matrix<const C> DirectB(const EinsumPlan& plan, const Block& block, const C* data) {
  int64_t stride = StrideOf(plan.n_of_b);
  return {data + block.at[2] + block.column * stride, StrideOf(plan.k_of_b), stride};  // [k, width]
}
template <class C>
Matrix<C> DirectOut(const EinsumPlan& plan, const Block& block, C* data) {
  int64_t stride = StrideOf(plan.m_of_out);
  return {data + block.at[0] + block.row * stride + block.column, stride, 1};  // [height, width]
}

// Runs tasks [begin, end) of the plan. Row blocks vary fastest, so that all of them use the packed columns of b in
// turn.
template <class C>
void RunBlocks(const EinsumPlan& plan, const Operands<C>& x, C* scratch, int64_t begin, int64_t end) {
  C *pack_a = scratch, *pack_b = pack_a + plan.PackA(), *pack_out = pack_b + plan.PackB();
  int64_t packed = -1;
  Matrix<const C> a{}, b{};
  for (int64_t task = begin; task < end; task++) {
    Block block(plan, task);
    if (plan.a_direct)
      a = DirectA(plan, block, x.a_data);
    else
      a = Pack(x.a, block.at[1], plan.m_of_a, block.row, block.row + block.height, plan.k_of_a, pack_a);
    if (plan.b_direct) {
      b = DirectB(plan, block, x.b_data);
    } else if (packed != block.column_task) {
      Matrix<const C> t =
          Pack(x.b, block.at[2], plan.n_of_b, block.column, block.column + block.width, plan.k_of_b, pack_b);
      b = {t.data, t.column, t.row};
      packed = block.column_task;
    }
    if (plan.out_direct) {
      Gemm<C>(block.height, block.width, plan.k, a, b, DirectOut(plan, block, x.out_data));
    } else {
      Gemm<C>(block.height, block.width, plan.k, a, b, {pack_out, block.width, 1});
      Unpack(x.out, block.at[0], plan.m_of_out, block.row, block.height, plan.n_of_out, block.column, block.width,
             pack_out);
    }
  }
}

template <class Out>
void RunBf16(const KernelCall& call, const EinsumPlan& plan, const TensorView& a, const TensorView& b,
             const TensorView& out) {
  ParallelFor(call, plan.Tasks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; task++) {
      Block block(plan, task);
      GemmBf16(block.height, block.width, plan.k, DirectA(plan, block, a.as<const BF16>()),
               DirectB(plan, block, b.as<const BF16>()), DirectOut(plan, block, out.as<Out>()));
    }
  });
}

// Computes runs of outputs, adding one term after another. For products of a few terms, outer products and plain
// multiplication.
template <class C>
void RunTiny(const KernelCall& call, const EinsumPlan& plan, const Operands<C>& x) {
  int64_t sy = plan.outputs.inner_stride(0), sa = plan.outputs.inner_stride(1), sb = plan.outputs.inner_stride(2);
  int64_t grain = std::max<int64_t>(1, 16384 / plan.k);
  ParallelFor(call, plan.outputs.Count(), grain, [&](int64_t begin, int64_t end) {
    alignas(64) C tile_a[kTile], tile_b[kTile], sum[kTile];
    ForEachRun(plan.outputs, begin, end, kTile, [&](const Offsets& at, int64_t n) {
      std::fill(sum, sum + n, C(0));
      ForEachRun(plan.terms, 0, plan.k, 1, [&](const Offsets& term, int64_t) {
        const C* a = x.a.Row(at[1] + term[0], sa, n, tile_a);  // [n]
        const C* b = x.b.Row(at[2] + term[1], sb, n, tile_b);  // [n]
        for (int64_t i = 0; i < n; i++) sum[i] += a[i] * b[i];
      });
      x.out.Copy(sum, at[0], sy, n);
    });
  });
}

int64_t Slots(const KernelCall& call, const EinsumPlan& plan) {
  return std::min({int64_t(Threads(call)), plan.Tasks(), kMaxGemmThreads});
}

size_t EinsumWorkspace(const KernelCall& call) {
  EinsumPlan plan(call);
  if (plan.tiny || plan.empty()) return 0;
  size_t size = call.out[0].dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  return size_t(Slots(call, plan) * plan.SlotElements()) * size;
}

template <class C>
void EinsumAs(const KernelCall& call) {
  EinsumPlan plan(call);
  if (plan.empty()) return;
  if (plan.k == 0) return ZeroBox(call, call.out[0]);
  const TensorView &a = plan.A(call), &b = plan.B(call), &out = call.out[0];
  if (plan.bf16)
    return out.dtype == DType::kBF16 ? RunBf16<BF16>(call, plan, a, b, out) : RunBf16<float>(call, plan, a, b, out);
  Operands<C> x{Reader<C>(a), Reader<C>(b), Writer<C>(out), a.as<const C>(), b.as<const C>(), out.as<C>()};
  if (plan.tiny) return RunTiny(call, plan, x);
  int64_t slot_elements = plan.SlotElements();
  GemmUse use(Slots(call, plan));
  ParallelSlots(call, plan.Tasks(), Slots(call, plan), [&](int64_t slot, int64_t begin, int64_t end) {
    RunBlocks(plan, x, static_cast<C*>(call.workspace) + slot * slot_elements, begin, end);
  });
}

void Einsum(const KernelCall& call) {
  DispatchCompute(call.out[0].dtype, [&](auto zero) { EinsumAs<decltype(zero)>(call); });
}

}  // namespace

void AddEinsum(KernelTable& table) {
  table.Add(Op::kEinsum, {.run = &Einsum, .workspace = &EinsumWorkspace, .slices = true});
}

}  // namespace weft::cpu
