// Support: whether this build of the CUDA library can use a host's driver and GPU, and the words where it cannot. Host
// code without CUDA.
#pragma once
#include <string>
#include <string_view>

namespace weft::cuda {

// Versions as CUDA counts them: 12040 is 12.4.
struct DriverFacts {
  int driver = 0;    // the newest CUDA that the driver runs; 0: there is no driver
  int runtime = 0;   // that this build is made with
  bool runs = true;  // whether CUDA is content with the two
  int gpus = 0;
  std::string error;  // what else CUDA says against them; empty: nothing
};
// Why rank `index` of this host has no GPU; empty: it has one.
std::string DriverFault(const DriverFacts& facts, int index);

// `built`: CMake's list of architectures, "90a-real" or "80-real,90". A name without -real or -virtual is both. Empty:
// the GPU, of compute capability 90 for 9.0, runs what was built.
std::string GpuFault(int index, const std::string& name, int capability, std::string_view built);

}  // namespace weft::cuda
