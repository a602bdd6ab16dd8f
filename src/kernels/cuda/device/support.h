// Support: whether this build of the CUDA library can use a host's driver and GPU, and the error message if it cannot.
// Host code without CUDA.
#pragma once
#include <string>
#include <string_view>

namespace weft::cuda {

// Versions are in CUDA's encoding: 12040 is 12.4.
struct DriverFacts {
  int driver = 0;    // newest CUDA version that the driver runs; 0 if there is no driver
  int runtime = 0;   // CUDA version of this build
  bool runs = true;  // whether CUDA accepts the two versions together
  int gpus = 0;
  std::string error;  // any other error that CUDA reports; empty if there is none
};
// Returns why rank `index` of this host has no GPU, or an empty string if it has one.
std::string DriverFault(const DriverFacts& facts, int index);

// Returns why the GPU cannot run this build's kernels, or an empty string if it can. `capability` is its compute
// capability, 90 for 9.0. `built` is CMake's list of architectures, for example "90a-real" or "80-real,90"; a name
// without -real or -virtual means both.
std::string GpuFault(int index, const std::string& name, int capability, std::string_view built);

}  // namespace weft::cuda
