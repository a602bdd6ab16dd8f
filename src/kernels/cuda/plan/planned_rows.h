// The rows of the CUDA kernels without their functions: which ops have a kernel, which of those take broadcasts, work
// in place or run many calls at once, and how large their workspaces are. That is what a plan needs of them.
//
// These files use no CUDA header. The program has them in every build, so it plans for GPUs without the CUDA library;
// that library begins with the same rows and gives each its functions, so neither knows more than the other.
#pragma once
#include <span>

#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Adds all rows. To run one of them throws Error.
void AddPlannedRows(KernelTable& table);

// Gives the planned row of `op` the functions that run it. Throws Error where there is no such row, where it has them
// already, and where the row says otherwise than `run_many` whether calls run together.
void SetRun(KernelTable& table, Op op, void (*run)(const KernelCall&),
            void (*run_many)(std::span<const KernelCall>) = nullptr);
// Throws Error that names the first op whose row has no functions yet.
void CheckAllRun(const KernelTable& table);

}  // namespace weft::cuda
