#include <cuda.h>

#include <algorithm>
#include <string>

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/tensor_tiles.cuh"

namespace weft::cuda {

CUtensorMap TensorMapOf(const void* data, std::span<const int64_t> extents, std::span<const int64_t> strides,
                        std::span<const int> box) {
  constexpr size_t kMost = 5;
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  WEFT_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
  CUtensorMap map;
  cuuint64_t of_tensor[kMost], bytes[kMost];
  cuuint32_t of_box[kMost], steps[kMost];
  std::ranges::copy(extents, of_tensor);
  std::ranges::copy(box, of_box);
  std::ranges::fill(steps, 1);
  std::ranges::transform(strides, bytes, [](int64_t stride) { return cuuint64_t(stride) * sizeof(uint16_t); });
  CUresult result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, cuuint32_t(extents.size()), const_cast<void*>(data), of_tensor, bytes,
      of_box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  WEFT_CHECK(result == CUDA_SUCCESS, "cuTensorMapEncodeTiled failed with " + std::to_string(int(result)));
  return map;
}

}  // namespace weft::cuda
