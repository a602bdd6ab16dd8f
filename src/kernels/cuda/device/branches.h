// Branches: work of a recording that no other work waits for, for example counters. Each branch is a stream of its own,
// which continues from the current stream. The recording ends after all of them.
#pragma once
#include <cuda_runtime_api.h>

#include <set>

namespace weft::cuda {

class CudaDevice;

class Branches {
 public:
  explicit Branches(CudaDevice& device);
  ~Branches();
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;

  // While recording, makes `branch` continue from the current stream and returns it. Otherwise returns the current
  // stream.
  cudaStream_t BranchOff(cudaStream_t branch);
  // Makes the current stream wait for all branches of the recording in progress.
  void Join();
  void Forget() { used_.clear(); }  // the recording has failed

 private:
  CudaDevice& device_;
  cudaEvent_t fork_ = nullptr;
  std::set<cudaStream_t> used_;  // in the recording in progress
};

}  // namespace weft::cuda
