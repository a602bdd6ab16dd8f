// GpuAccess: how a rank finds the GPUs of its host and opens what ranks on GPUs need. Tests replace these functions.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/dist/group/nccl/nccl_library.h"
#include "weft/kernels/common/cuda_library.h"

namespace weft {

struct GpuAccess {
  std::function<bool()> has_driver = HasCudaDriver;
  std::function<absl::StatusOr<std::vector<std::string>>()> gpus = CudaGpus;
  std::function<absl::StatusOr<std::shared_ptr<const NcclLibrary>>(int ranks, bool one_host)> open_nccl =
      [](int ranks, bool one_host) { return NcclLibrary::Open(ranks, one_host); };
  std::function<absl::Status(Context& context, int index)> open_gpu = OpenCuda;
};

}  // namespace weft
