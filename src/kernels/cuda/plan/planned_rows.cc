#include "weft/kernels/cuda/plan/planned_rows.h"

#include <fmt/format.h>

#include "weft/core/ir/op.h"
#include "weft/kernels/cuda/plan/einsum_sizes.h"
#include "weft/kernels/cuda/plan/embedding_sizes.h"
#include "weft/kernels/cuda/plan/indexing_sizes.h"
#include "weft/kernels/cuda/plan/linear_loss.h"
#include "weft/kernels/cuda/plan/linear_swiglu.h"
#include "weft/kernels/cuda/plan/loss_sizes.h"
#include "weft/kernels/cuda/plan/norm_sizes.h"
#include "weft/kernels/cuda/plan/reduce_plan.h"
#include "weft/kernels/cuda/plan/rope_sizes.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {
namespace {

void RunPlanned(const KernelCall&) { Fail("a kernel on CUDA was planned with only; open the CUDA library to run it"); }
void RunManyPlanned(std::span<const KernelCall> calls) { RunPlanned(calls[0]); }

template <bool center>
size_t NormGradBytes(const KernelCall& call) {
  return NormGradWorkspace(call, center);
}
size_t SdpaBytes(const KernelCall& call) { return SdpaWorkspace(PlannedSdpa(), call); }
std::string SdpaAnswer(const KernelCall& call) { return ExplainSdpa(PlannedSdpa(), call); }

struct PlannedRow {
  Op op;
  size_t (*workspace)(const KernelCall&) = nullptr;
  bool many = false, any_strides = false, slices = false, in_place = false;
  std::string (*explain)(const KernelCall&) = nullptr;
};

// In place: each thread reads what it needs before it writes. Rows of norms are read before they are written, and
// weights are read or copied before anything overwrites them.
// clang-format off
constexpr PlannedRow kRows[] = {
#define WEFT_ROW(Name, ...) {.op = Op::k##Name, .any_strides = true, .slices = true, .in_place = true},
    WEFT_UNARY_OPS(WEFT_ROW)
    WEFT_SCALAR_OPS(WEFT_ROW)
    WEFT_BINARY_OPS(WEFT_ROW)
#undef WEFT_ROW
#define WEFT_ROW(Name, ...) {.op = Op::k##Name, .any_strides = true},
    WEFT_COMPARE_OPS(WEFT_ROW)
    WEFT_LOGIC_OPS(WEFT_ROW)
    WEFT_STRUCTURAL_OPS(WEFT_ROW)
#undef WEFT_ROW
    {.op = Op::kSelect, .any_strides = true},
    {.op = Op::kCast, .any_strides = true, .slices = true},
    {.op = Op::kNot, .any_strides = true, .in_place = true},
    {.op = Op::kStopGradient, .any_strides = true, .in_place = true},
    {.op = Op::kSwiGluGrad, .any_strides = true, .slices = true},
    {.op = Op::kFull},
    {.op = Op::kIota},
    {.op = Op::kRandom},
    {.op = Op::kDropout, .any_strides = true, .in_place = true},
    {.op = Op::kReduceSum, .workspace = ReduceWorkspace, .any_strides = true},
    {.op = Op::kReduceMax, .workspace = ReduceWorkspace, .any_strides = true},
    {.op = Op::kReduceMin, .workspace = ReduceWorkspace, .any_strides = true},
    {.op = Op::kReduceProd, .workspace = ReduceWorkspace, .any_strides = true},
    {.op = Op::kArgMax, .any_strides = true},
    {.op = Op::kCumSum, .any_strides = true},
    {.op = Op::kSumOfSquares, .workspace = SumOfSquaresWorkspace, .many = true, .any_strides = true, .slices = true},
    {.op = Op::kEinsum, .workspace = EinsumWorkspace, .many = true, .slices = true},
    {.op = Op::kLinear, .workspace = LinearWorkspace, .many = true, .slices = true},
    {.op = Op::kLinearSwiGluGrad, .workspace = LinearSwiGluWorkspace, .slices = true},
    {.op = Op::kLinearGeluGrad, .workspace = LinearGeluGradWorkspace, .slices = true},
    {.op = Op::kEmbedding},
    {.op = Op::kEmbeddingGrad, .workspace = EmbeddingGradWorkspace},
    {.op = Op::kGather, .any_strides = true},
    {.op = Op::kScatter, .workspace = ScatterWorkspace, .any_strides = true, .in_place = true},
    {.op = Op::kScatterAdd, .workspace = ScatterAddWorkspace, .any_strides = true, .in_place = true},
    {.op = Op::kDynamicSlice, .any_strides = true},
    {.op = Op::kDynamicUpdate, .many = true, .any_strides = true, .in_place = true},
    {.op = Op::kSort, .workspace = SortWorkspace, .any_strides = true},
    {.op = Op::kTopK, .workspace = SortWorkspace, .any_strides = true},
    {.op = Op::kCumMax, .any_strides = true},
    {.op = Op::kRmsNorm, .workspace = NormWorkspace, .in_place = true},
    {.op = Op::kRmsNormGrad, .workspace = NormGradBytes<false>, .in_place = true},
    {.op = Op::kRmsNormGradAdd, .workspace = NormGradBytes<false>, .in_place = true},
    {.op = Op::kLayerNorm, .workspace = NormWorkspace, .in_place = true},
    {.op = Op::kLayerNormGrad, .workspace = NormGradBytes<true>, .in_place = true},
    {.op = Op::kLayerNormGradAdd, .workspace = NormGradBytes<true>, .in_place = true},
    {.op = Op::kSumExp},
    {.op = Op::kCrossEntropy, .workspace = LossWorkspace},
    {.op = Op::kCrossEntropyGrad, .in_place = true},
    {.op = Op::kLinearCrossEntropy, .workspace = LinearLossWorkspace},
    {.op = Op::kLinearCrossEntropyGrad, .workspace = LinearLossWorkspace},
    {.op = Op::kRope, .workspace = RopeWorkspace, .many = true, .slices = true, .in_place = true},
    {.op = Op::kSdpa, .workspace = SdpaBytes, .slices = true, .explain = SdpaAnswer},
    {.op = Op::kSdpaGrad, .workspace = SdpaBytes, .slices = true, .explain = SdpaAnswer},
    {.op = Op::kAdamW, .many = true, .any_strides = true, .slices = true, .in_place = true},
    {.op = Op::kSgd, .many = true, .any_strides = true, .slices = true, .in_place = true},
    {.op = Op::kLion, .many = true, .any_strides = true, .slices = true, .in_place = true},
};
// clang-format on

void Add(KernelTable& table, const PlannedRow& row) {
  table.Add(row.op, {.run = &RunPlanned,
                     .workspace = row.workspace,
                     .run_many = row.many ? &RunManyPlanned : nullptr,
                     .explain = row.explain,
                     .any_strides = row.any_strides,
                     .slices = row.slices,
                     .in_place = row.in_place});
}

}  // namespace

void AddPlannedRows(KernelTable& table) {
  for (const PlannedRow& row : kRows) Add(table, row);
}

void SetRun(KernelTable& table, Op op, void (*run)(const KernelCall&), void (*run_many)(std::span<const KernelCall>)) {
  WEFT_CHECK(table.Has(op), fmt::format("{} on CUDA: expected a row of planned_rows.cc, got none", Name(op)));
  KernelRow row = table.Row(op);
  WEFT_CHECK(row.run == &RunPlanned, fmt::format("{} on CUDA: expected one kernel, got two", Name(op)));
  WEFT_CHECK((row.run_many != nullptr) == (run_many != nullptr),
             fmt::format("{} on CUDA: expected that planned_rows.cc and the kernel agree on `many`", Name(op)));
  row.run = run;
  row.run_many = run_many;
  table.Add(op, row);
}

void CheckAllRun(const KernelTable& table) {
  for (int op = 0; op < kNumOps; op++)
    WEFT_CHECK(!table.Has(Op(op)) || table.Row(Op(op)).run != &RunPlanned,
               fmt::format("{} on CUDA: expected a kernel for its row of planned_rows.cc, got none", Name(Op(op))));
}

}  // namespace weft::cuda
