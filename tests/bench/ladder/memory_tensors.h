// The tensors of a measured call: cut from four regions of the device's memory, filled with random values.
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

// Memory of the device, handed out from the front; where it is only read, from the front again when it is used up.
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

// Calls with their tensors. Operands point to the views, so it is moved but not copied.
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
  // With tensors of their own, until Reset.
  Launch Bind(std::shared_ptr<const std::vector<Call>> calls);
  void Run(const Launch& launch) const;
  void Reset();

  cudaStream_t stream() const { return static_cast<cuda::CudaDevice&>(device()).stream(); }
  DeviceRuntime& device() const { return context_->device(DeviceKind::kCuda); }
  // Two places of so many bytes for a copy; `turn` picks one of the pairs that lie beside each other.
  std::pair<void*, const void*> CopyPair(size_t bytes, int turn) const;

 private:
  const KernelTable& table() const { return context_->kernels(DeviceKind::kCuda); }
  void Fill(const char* kind, const TensorView& view);
  void Upload(void* to, const void* from, size_t bytes);
  TensorView Place(const Operand& operand, bool result);

  std::unique_ptr<Context> context_;
  // Operands with normal values are cut from the first region, which nothing writes: a pair of bf16 normals is an f32
  // normal too. Operands with other values, results and workspaces have a region each.
  Region normals_, others_, results_, scratch_;
  BufferPtr zero_;
  int64_t key_ = 1;
};

}  // namespace weft::bench
