// A rank of a job that mpirun started, with its own GPU.
#pragma once
#include <memory>
#include <string>

#include "dist/mpi_run.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/nccl/nccl_library.h"
#include "weft/dist/group/standard/group_maker.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft::testing_ {

struct GpuWorld {
  Bootstrap& bootstrap = test::TheBootstrap();
  Context context{bootstrap.rank(), bootstrap.world_size()};
  std::unique_ptr<FactoryTable> groups;

  GpuWorld() {
    absl::Status nccl = NcclLibrary::Open(bootstrap.world_size(), true).status();
    WEFT_CHECK(nccl.ok(), std::string(nccl.message()));
    absl::Status opened = OpenCuda(context, bootstrap.local_rank());
    WEFT_CHECK(opened.ok(), std::string(opened.message()));
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    for (DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) RegisterCollectives(context.kernels(kind), kind);
    groups = MakeGroupFactory(bootstrap, &context);
  }
};

// All tests share one world, because creating communicators takes half a second.
inline GpuWorld& TheGpuWorld() {
  static auto* world = new GpuWorld;  // never destroyed, because MPI ends first
  return *world;
}

}  // namespace weft::testing_
