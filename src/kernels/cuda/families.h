// One function per family, which sets the functions of the planned rows of its ops; library.cc calls them all. An op
// without a row in plan/planned_rows.cc runs as its fallback.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/kernels/cuda/plan/planned_rows.h"

namespace weft::cuda {

void AddElementwise(KernelTable& table);
void AddSelectAndCast(KernelTable& table);
void AddStructural(KernelTable& table);
void AddGenerators(KernelTable& table);
void AddRandom(KernelTable& table);
void AddReduce(KernelTable& table);
void AddEinsum(KernelTable& table);
void AddEmbedding(KernelTable& table);
void AddGather(KernelTable& table);
void AddDynamic(KernelTable& table);
void AddSort(KernelTable& table);
void AddRmsNorm(KernelTable& table);
void AddLayerNorm(KernelTable& table);
void AddLoss(KernelTable& table);
void AddSumExp(KernelTable& table);
void AddLinearLoss(KernelTable& table);
void AddRope(KernelTable& table);
void AddSdpa(KernelTable& table);
void AddAdamW(KernelTable& table);
void AddSgd(KernelTable& table);
void AddLion(KernelTable& table);
void AddSwiGluGrad(KernelTable& table);
void AddLinearSwiGluGrad(KernelTable& table);

}  // namespace weft::cuda
