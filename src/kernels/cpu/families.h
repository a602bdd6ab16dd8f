// One registration function per family; register.cc calls them all.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cpu {

void AddElementwise(KernelTable& table);
void AddSelectAndCast(KernelTable& table);
void AddStructural(KernelTable& table);
void AddReduce(KernelTable& table);
void AddEinsum(KernelTable& table);
void AddGenerators(KernelTable& table);
void AddRandom(KernelTable& table);
void AddEmbedding(KernelTable& table);
void AddGather(KernelTable& table);
void AddDynamic(KernelTable& table);
void AddSort(KernelTable& table);
void AddRmsNorm(KernelTable& table);
void AddLayerNorm(KernelTable& table);
void AddLoss(KernelTable& table);
void AddRope(KernelTable& table);
void AddSdpa(KernelTable& table);
void AddSdpaGrad(KernelTable& table);
void AddAdamW(KernelTable& table);
void AddSgd(KernelTable& table);
void AddLion(KernelTable& table);
void AddSwiGluGrad(KernelTable& table);

}  // namespace weft::cpu
