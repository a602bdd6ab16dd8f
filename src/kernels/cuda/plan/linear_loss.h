// The last product fused with its cross-entropy: how a call is cut into chunks of rows, the products around a chunk's
// logits, and the workspace. Host code without CUDA.
#pragma once
#include <array>
#include <string>

#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// A range of the rows of a call, and their logits in the workspace. If the rows follow each other without gaps, they
// form one dim.
struct LossChunk {
  TensorView x, w, targets, loss, dloss, dx, dw, logits;
  std::string rows;  // einsum labels of the row dims

  // Takes rows [first, first + count) of a call whose views are flat, or all rows if they are not.
  LossChunk(const KernelCall& call, bool flat, int64_t first, int64_t count);
  static bool AllFlat(const KernelCall& call);
  // Returns the elements from one row of logits to the next. Rows begin at multiples of 128 bytes for any vocabulary.
  static int64_t LeadingOf(DType dtype, int64_t vocab);
  size_t LogitBytes() const;
};

// One of the products around a chunk's logits, in the form that the kernels of einsum and linear take.
struct LossProduct {
  Op op;
  Attrs attrs;
  std::array<TensorView, 3> in;
  size_t operands;
  TensorView out;

  static LossProduct Logits(const LossChunk& c);
  static LossProduct Dx(const LossChunk& c);
  // Adds to dw if `add`, otherwise overwrites it.
  static LossProduct Dw(const LossChunk& c, bool add);

  // Returns the product as a separate call, with the workspace of `call` from `offset` on.
  KernelCall CallOf(const KernelCall& call, size_t offset) const;
  const KernelRow& Row(const KernelCall& call) const { return call.context->kernels(DeviceKind::kCuda).Row(op); }
  size_t Workspace(const KernelCall& call) const { return Row(call).workspace(CallOf(call, 0)); }
  void Run(const KernelCall& call, const LossChunk& c) const { Row(call).run(CallOf(call, c.LogitBytes())); }
};

// How the rows of a call are cut into chunks, each of about Numerics::logit_bytes of logits, in multiples of 128 rows.
// Every chunk but the first reads and writes the gradient of w, so more chunks cost time.
struct LossCut {
  bool flat;
  int64_t rows, size;  // all rows; rows per chunk

  explicit LossCut(const KernelCall& call);
  int64_t Last() const { return rows - (rows - 1) / size * size; }

 private:
  bool Adds(const KernelCall& call) const;
};

// Returns the workspace of linear_cross_entropy or of its gradient, in bytes.
size_t LinearLossWorkspace(const KernelCall& call);

}  // namespace weft::cuda
