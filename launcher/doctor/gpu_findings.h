// Checks whether several ranks can run on GPUs. A fault has the text of the error that ends such a run.
#pragma once
#include <vector>

#include "launcher/doctor/finding.h"
#include "weft/api/environment/gpu_access.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

// Opens NCCL as a run with a rank for each GPU of this host would. With fewer than two GPUs opens nothing.
Finding ExamineNccl(const GpuAccess& access = {});
// Chooses a device as a run of these ranks would, and opens it. Reports the choice, and NCCL if each rank has a GPU.
// Collective. All ranks get the same result, except for the path of NCCL.
std::vector<Finding> ExamineDevices(Bootstrap& bootstrap, const GpuAccess& access = {});

}  // namespace weft
