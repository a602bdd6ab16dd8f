#include "weft/kernels/cuda/plan/linear_loss.h"

#include <algorithm>

#include "weft/kernels/cuda/plan/product_plan.h"
#include "weft/kernels/cuda/plan/rows.h"

namespace weft::cuda {
namespace {

constexpr int64_t kAlign = 256, kRows = 128;  // chunks of whole tiles of the products

bool IsFlat(const TensorView& v) {
  int64_t stride = 1;
  for (int d = v.rank - 1; d >= 0; stride *= v.dim(d--).extent)
    if (v.dim(d).extent > 1 && v.dim(d).stride != stride) return false;
  return true;
}

TensorView RowsOf(const TensorView& v, int64_t first, int64_t count, int64_t columns) {
  char* data = v.as<char>();
  if (data) data += size_t(first * std::max<int64_t>(columns, 1)) * SizeOf(v.dtype);
  return columns ? MakeView(data, v.dtype, {count, columns}) : MakeView(data, v.dtype, {count});
}

}  // namespace

bool LossChunk::AllFlat(const KernelCall& call) {
  bool flat = IsFlat(call.in[0]) && IsFlat(call.in[2]) && IsFlat(call.out[0]);
  return flat && (call.in.size() < 4 || (IsFlat(call.in[3]) && IsFlat(call.out[1])));
}

LossChunk::LossChunk(const KernelCall& call, bool flat, int64_t first, int64_t count)
    : x(call.in[0]), w(call.in[1]), targets(call.in[2]), loss(call.out[0]) {
  bool gradient = call.in.size() == 4;
  if (gradient) dloss = call.in[3], dx = call.out[1], dw = call.out[2];
  if (flat) {
    int64_t width = ColumnsOf(x);
    x = RowsOf(x, first, count, width), targets = RowsOf(targets, first, count, 0);
    loss = RowsOf(loss, first, count, 0);
    if (gradient) dx = RowsOf(dx, first, count, width), dloss = RowsOf(dloss, first, count, 0);
  }
  rows = std::string("abcdefgh").substr(0, size_t(x.rank - 1));
  Shape shape;
  for (int d = 0; d + 1 < x.rank; d++) shape.push_back(x.dim(d).extent);
  int64_t vocab = w.dim(0).extent;
  shape.push_back(LeadingOf(x.dtype, vocab));
  logits = MakeView(call.workspace, x.dtype, shape);
  logits.dims[size_t(x.rank - 1)].extent = logits.dims[size_t(x.rank - 1)].global = vocab;
}

int64_t LossChunk::LeadingOf(DType dtype, int64_t vocab) { return RoundUp(vocab, 128 / int64_t(SizeOf(dtype))); }

size_t LossChunk::LogitBytes() const {
  return size_t(RoundUp(logits.CapacityElements() * int64_t(SizeOf(x.dtype)), kAlign));
}

LossProduct LossProduct::Logits(const LossChunk& c) {
  return {Op::kEinsum, {{"eq", c.rows + "y,zy->" + c.rows + "z"}}, {c.x, c.w}, 2, c.logits};
}

LossProduct LossProduct::Dx(const LossChunk& c) {
  return {Op::kEinsum, {{"eq", c.rows + "z,zy->" + c.rows + "y"}}, {c.logits, c.w}, 2, c.dx};
}

LossProduct LossProduct::Dw(const LossChunk& c, bool add) {
  Attrs attrs{{"eq", c.rows + "z," + c.rows + "y->zy"}, {"bias", 0}, {"residual", add}, {"wide", 1}};
  return {Op::kLinear, std::move(attrs), {c.logits, c.x, c.dw}, add ? size_t(3) : 2, c.dw};
}

KernelCall LossProduct::CallOf(const KernelCall& call, size_t offset) const {
  KernelCall mine = call;
  mine.attrs = &attrs;
  mine.in = std::span(in).first(operands);
  mine.out = std::span(&out, 1);
  mine.workspace = call.workspace ? static_cast<char*>(call.workspace) + offset : nullptr;
  mine.workspace_bytes = call.workspace_bytes > offset ? call.workspace_bytes - offset : 0;
  return mine;
}

LossCut::LossCut(const KernelCall& call) : flat(LossChunk::AllFlat(call)), rows(RowCount(call.in[0])), size(rows) {
  int64_t row = LossChunk::LeadingOf(call.in[0].dtype, call.in[1].dim(0).extent) * int64_t(SizeOf(call.in[0].dtype));
  int64_t chunks = CeilDiv(rows * row, call.context->numerics().logit_bytes);
  if (!flat || chunks <= 1) return;
  size = RoundUp(CeilDiv(rows, chunks), kRows);
  if (call.in.size() == 4 && !Adds(call)) size = rows;
}

// Returns whether the library can add a chunk's part of dw to what is there.
bool LossCut::Adds(const KernelCall& call) const {
  LossChunk chunk(call, flat, 0, Last());
  LossProduct step = LossProduct::Dw(chunk, false);
  ProductPlan plan(step.CallOf(call, 0));
  return plan.route == ProductPlan::Route::kLibrary && !plan.out_copy;
}

size_t LinearLossWorkspace(const KernelCall& call) {
  LossCut cut(call);
  if (cut.rows == 0) return 0;
  size_t most = 0;
  for (int64_t size : {cut.size, cut.Last()}) {
    LossChunk chunk(call, cut.flat, 0, size);
    size_t products = LossProduct::Logits(chunk).Workspace(call);
    if (call.in.size() == 4)
      products =
          std::max({products, LossProduct::Dx(chunk).Workspace(call), LossProduct::Dw(chunk, true).Workspace(call)});
    most = std::max(most, chunk.LogitBytes() + products);
  }
  return most;
}

}  // namespace weft::cuda
