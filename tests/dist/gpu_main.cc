// The main function of tests that take a GPU for each rank that mpirun starts. They are skipped where there are fewer.
#include <fmt/format.h>

#include "mpi_run.h"
#include "weft/kernels/common/cuda_library.h"

namespace weft::test {
namespace {

std::string LackOfGpus(Bootstrap& bootstrap) {
  auto gpus = CudaGpus();
  std::string lack;
  if (!gpus.ok() || int(gpus->size()) < bootstrap.local_size())
    lack = fmt::format("expected {} GPUs on host {}, got {}", bootstrap.local_size(), bootstrap.host(),
                       gpus.ok() ? fmt::format("{}", gpus->size()) : std::string(gpus.status().message()));
  for (const std::string& one : bootstrap.AllGather(lack))
    if (!one.empty()) return one;
  return "";
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) { return weft::test::RunUnderMpi(argc, argv, weft::test::LackOfGpus); }
