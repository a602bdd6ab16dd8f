// The kernel rows of CUDA without their functions: which ops have a kernel, which of them take broadcasts, work in
// place or run many calls at once, and how large their workspaces are. A plan needs no more than that.
//
// These files use no CUDA header. Every build of the program contains them, so it can plan for GPUs without the CUDA
// library. That library starts with the same rows and sets the functions of each, so the two cannot disagree.
#pragma once
#include <span>

#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Adds all rows. Running one of them throws Error.
void AddPlannedRows(KernelTable& table);

// Sets the functions that run the planned row of `op`. Throws Error if there is no such row, if it already has
// functions, or if `run_many` does not match what the row says about running calls together.
void SetRun(KernelTable& table, Op op, void (*run)(const KernelCall&),
            void (*run_many)(std::span<const KernelCall>) = nullptr);
// Throws Error that names the first op whose row has no functions yet.
void CheckAllRun(const KernelTable& table);

}  // namespace weft::cuda
