// The tensors of a measured call. They are cut from four regions of the device's memory and filled with random values.
//
//   MemoryTensors tensors;                       // opens the GPU
//   for (int copy = 0; copy < n; copy++) launches.push_back(tensors.Bind(calls));
//   tensors.Run(launches[0]);
#pragma once
#include <memory>

#include "memory_cases.h"
#include "weft/core/runtime/kernel.h"
#include "weft/kernels/cuda/device/device.h"

namespace weft::bench {

// Device memory, allocated from the front. If it is only read (`again`), allocation restarts at the front when the end
// is reached.
class Region {
 public:
  Region(DeviceRuntime& device, size_t bytes, bool again = false) : buffer_(device.Allocate(bytes)), again_(again) {}
  void* Take(size_t bytes);
  void Reset() { used_ = 0; }
  void* data() const { return buffer_->data(); }
  size_t bytes() const { return buffer_->bytes(); }

 private:
  BufferPtr buffer_;
  bool again_;
  size_t used_ = 0;
};

// Calls with their tensors. The calls point to the views, so a launch can be moved but not copied.
struct Launch {
  std::vector<std::vector<TensorView>> in, out;
  std::vector<KernelCall> calls;
  std::shared_ptr<const std::vector<Call>> of;

  Launch() = default;
  Launch(Launch&&) = default;
  Launch& operator=(Launch&&) = default;
};

class MemoryTensors {
 public:
  MemoryTensors();
  // Returns the calls with their own tensors, which are valid until Reset.
  Launch Bind(std::shared_ptr<const std::vector<Call>> calls);
  void Run(const Launch& launch) const;
  void Reset();

  cudaStream_t stream() const { return static_cast<cuda::CudaDevice&>(device()).stream(); }
  DeviceRuntime& device() const { return context_->device(DeviceKind::kCuda); }
  // Returns two addresses for a copy of `bytes` bytes. `turn` picks one of several adjacent pairs.
  std::pair<void*, const void*> CopyPair(size_t bytes, int turn) const;

 private:
  const KernelTable& table() const { return context_->kernels(DeviceKind::kCuda); }
  void Fill(const char* kind, const TensorView& view);
  void Upload(void* to, const void* from, size_t bytes);
  TensorView Place(const Operand& operand, bool result);

  std::unique_ptr<Context> context_;
  // Operands with normal values are cut from the first region, which is never written: a pair of bf16 normals is an f32
  // normal too. Operands with other values, results and workspaces have a region each.
  Region normals_, others_, results_, scratch_;
  BufferPtr zero_;
  int64_t key_ = 1;
};

}  // namespace weft::bench
