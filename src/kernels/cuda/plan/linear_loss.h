// The last product with its cross-entropy: how a call is cut into chunks of rows, the products around a chunk's logits,
// and the workspace. Host code without CUDA.
#pragma once
#include <array>
#include <string>

#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// A range of the rows of a call, and the logits in the workspace. Rows that lie one behind another become one dim.
struct LossChunk {
  TensorView x, w, targets, loss, dloss, dx, dw, logits;
  std::string rows;  // labels

  // The rows [first, first + count) of a call whose views are flat, or all of them.
  LossChunk(const KernelCall& call, bool flat, int64_t first, int64_t count);
  static bool AllFlat(const KernelCall& call);
  // Elements from one row of logits to the next: rows begin at multiples of 128 bytes whatever the vocabulary.
  static int64_t LeadingOf(DType dtype, int64_t vocab);
  size_t LogitBytes() const;
};

// One of the products around a chunk's logits, as the rows of einsum and linear run it.
struct LossProduct {
  Op op;
  Attrs attrs;
  std::array<TensorView, 3> in;
  size_t operands;
  TensorView out;

  static LossProduct Logits(const LossChunk& c);
  static LossProduct Dx(const LossChunk& c);
  // Adds to dw, or sets it.
  static LossProduct Dw(const LossChunk& c, bool add);

  // The product as a call of its own, with the workspace of `call` from `offset` on.
  KernelCall CallOf(const KernelCall& call, size_t offset) const;
  const KernelRow& Row(const KernelCall& call) const { return call.context->kernels(DeviceKind::kCuda).Row(op); }
  size_t Workspace(const KernelCall& call) const { return Row(call).workspace(CallOf(call, 0)); }
  void Run(const KernelCall& call, const LossChunk& c) const { Row(call).run(CallOf(call, c.LogitBytes())); }
};

// How the rows of a call are cut.
struct LossCut {
  bool flat;
  int64_t rows, size;  // all; of a chunk

  explicit LossCut(const KernelCall& call);
  int64_t Last() const { return rows - (rows - 1) / size * size; }

 private:
  bool Adds(const KernelCall& call) const;
};

// Of linear_cross_entropy and its gradient.
size_t LinearLossWorkspace(const KernelCall& call);

}  // namespace weft::cuda
