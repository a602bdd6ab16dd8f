// The symbols that the program looks up in the CUDA library; see kernels/common/cuda_library.h.
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"

extern "C" {

__attribute__((visibility("default"))) void weft_cuda_register(weft::KernelTable& table) {
  using namespace weft::cuda;
  AddPlannedRows(table);
  AddElementwise(table);
  AddSelectAndCast(table);
  AddStructural(table);
  AddGenerators(table);
  AddRandom(table);
  AddReduce(table);
  AddEinsum(table);
  AddEmbedding(table);
  AddGather(table);
  AddDynamic(table);
  AddSort(table);
  AddRmsNorm(table);
  AddLayerNorm(table);
  AddLoss(table);
  AddSumExp(table);
  AddLinearLoss(table);
  AddRope(table);
  AddSdpa(table);
  AddAdamW(table);
  AddSgd(table);
  AddLion(table);
  AddSwiGluGrad(table);
  AddLinearSwiGluGrad(table);
  CheckAllRun(table);
}

__attribute__((visibility("default"))) void weft_cuda_gpus(std::vector<std::string>& gpus) {
  gpus = weft::cuda::GpuNames();
}

__attribute__((visibility("default"))) weft::DeviceRuntime* weft_cuda_open(int index) {
  return new weft::cuda::CudaDevice(index);
}
}
