// How threads share the rows of a norm, and the resulting workspaces. Host code without CUDA.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {

struct RowGroups {
  int vectors = 0;     // per row
  int per_thread = 0;  // vectors; 0: rows do not fit in registers
  int threads = 0;     // per row: a power of two below a warp, or whole warps
  int rows = 0;        // per block

  unsigned block() const { return unsigned(threads * rows); }
};

// Limits of a kernel.
struct RowLimits {
  int usual;     // vectors per thread, unless rows need the four that every kernel can take
  int threads;   // per block
  int resident;  // threads per multiprocessor with one vector per thread; half as many with more
};
inline constexpr RowLimits kForwardLimits{4, 1024, 2048}, kGradLimits{2, 512, 1024};

// `pack` is the number of elements per vector.
RowGroups GroupsOf(int64_t columns, int pack, const RowLimits& limits);

// Blocks of the gradient are narrow if the rows allow it. Each thread then holds many columns, and the sums over a row
// cost little. A row of one warp waits for no other warp.
inline constexpr int kNarrowGrad = 128;
// Returns the blocks that a multiprocessor runs at a time, which registers and shared memory limit.
constexpr int GradResidents(int per_thread, bool wide) {
  if (wide) return per_thread == 1 ? 2 : 1;
  return per_thread == 1 ? 8 : per_thread == 2 ? 6 : per_thread == 3 ? 4 : 3;
}
// Rows that a block of the kernel for any width takes at a time when it sums columns.
inline constexpr int kColumnRows = 8;

// `element` is the size of an element in bytes.
RowGroups GradGroups(int64_t columns, size_t element);
inline bool IsWide(const RowGroups& groups) { return groups.block() > kNarrowGrad; }
// Returns the number of blocks that sum columns: as many as an H200 runs at a time. It does not depend on the device,
// so that all devices give the same bits.
int64_t GradBlocks(int64_t rows, const RowGroups& groups);

// Returns the bytes of the copies of weight and bias.
size_t NormWorkspace(const KernelCall& call);
// Returns the bytes of the column sums, one set per block: dweight, and with `center` dbias.
size_t NormGradWorkspace(const KernelCall& call, bool center);

}  // namespace weft::cuda
