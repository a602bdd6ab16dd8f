// How threads share the rows of a norm, and the workspaces that follow from it. Host code without CUDA.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {

struct RowGroups {
  int vectors = 0;     // of a row
  int per_thread = 0;  // 0: rows do not lie in registers
  int threads = 0;     // of a row: a power of two below a warp, or warps
  int rows = 0;        // of a block

  unsigned block() const { return unsigned(threads * rows); }
};

// What a kernel can take.
struct RowLimits {
  int usual;     // vectors of a thread, unless rows need the four that all can take
  int threads;   // of a block
  int resident;  // threads of a multiprocessor with one vector a thread, and half of that with more
};
inline constexpr RowLimits kForwardLimits{4, 1024, 2048}, kGradLimits{2, 512, 1024};

// `pack`: elements of a vector.
RowGroups GroupsOf(int64_t columns, int pack, const RowLimits& limits);

// Blocks of the gradient are narrow where rows allow: each thread then holds many columns, and the sums over a row cost
// little. Rows of one warp wait for no other.
inline constexpr int kNarrowGrad = 128;
// Blocks that a multiprocessor runs at a time: as many as have enough registers and shared memory.
constexpr int GradResidents(int per_thread, bool wide) {
  if (wide) return per_thread == 1 ? 2 : 1;
  return per_thread == 1 ? 8 : per_thread == 2 ? 6 : per_thread == 3 ? 4 : 3;
}
// Rows that a block of the kernel for any width takes at a time, to add up columns.
inline constexpr int kColumnRows = 8;

// `element`: bytes.
RowGroups GradGroups(int64_t columns, size_t element);
inline bool IsWide(const RowGroups& groups) { return groups.block() > kNarrowGrad; }
// Blocks that add up columns: what an H200 runs at a time. Not asked of the device, so that all give the same bits.
int64_t GradBlocks(int64_t rows, const RowGroups& groups);

// Copies of weight and bias.
size_t NormWorkspace(const KernelCall& call);
// Sums of columns, a set a block: dweight, and with `center` dbias.
size_t NormGradWorkspace(const KernelCall& call, bool center);

}  // namespace weft::cuda
