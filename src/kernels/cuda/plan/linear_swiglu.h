// LinearSwiGluGrad on the GPU: as one kernel where its tiles divide the product, and else as a product and the gradient
// of SwiGLU. Host code without CUDA.
#pragma once
#include <cstdint>

#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// The two calls that the op consists of. dy lies dense at the start of the workspace. The parts must not outlive the
// call.
struct LinearSwiGluParts {
  TensorView dy;
  std::array<TensorView, 3> of_grad;  // a, b, dy
  KernelCall product, gradient;

  explicit LinearSwiGluParts(const KernelCall& call);
  LinearSwiGluParts(const LinearSwiGluParts&) = delete;
};

// x [rows, terms] and w [columns, terms] give dy [rows, columns]. Rows of an operand lie `ld` elements apart.
struct SwiGluTiles {
  static constexpr int64_t kRows = 2048, kColumns = 256, kTerms = 64;

  int64_t rows = 0, columns = 0, terms = 0;
  int64_t ld_x = 0, ld_w = 0, ld_a = 0, ld_b = 0, ld_da = 0, ld_db = 0;
  // Whether the kernel computes the call: operands of bf16 in rows of contiguous elements at multiples of 16 bytes, and
  // sizes that its tiles divide. Data pointers count if there are any.
  bool fits = false;

  explicit SwiGluTiles(const KernelCall& call);
};

// Returns the bytes of dy and of its product's workspace. A GPU without the kernel needs them for any sizes.
size_t LinearSwiGluWorkspace(const KernelCall& call);

}  // namespace weft::cuda
