#include "weft/kernels/cpu/backend/register.h"

#include "weft/core/base/error.h"
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/product/gemm.h"

namespace weft {

void RegisterCpuKernels(KernelTable& table) {
  absl::Status opened = cpu::OpenGemm();
  WEFT_CHECK(opened.ok(), std::string(opened.message()));
  cpu::AddElementwise(table);
  cpu::AddSelectAndCast(table);
  cpu::AddStructural(table);
  cpu::AddReduce(table);
  cpu::AddEinsum(table);
  cpu::AddGenerators(table);
  cpu::AddRandom(table);
  cpu::AddEmbedding(table);
  cpu::AddGather(table);
  cpu::AddDynamic(table);
  cpu::AddSort(table);
  cpu::AddRmsNorm(table);
  cpu::AddLayerNorm(table);
  cpu::AddLoss(table);
  cpu::AddRope(table);
  cpu::AddSdpa(table);
  cpu::AddSdpaGrad(table);
  cpu::AddAdamW(table);
  cpu::AddSgd(table);
  cpu::AddLion(table);
  cpu::AddSwiGluGrad(table);
}

}  // namespace weft
