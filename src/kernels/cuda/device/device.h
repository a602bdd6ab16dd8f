// CudaDevice: one GPU as its rank uses it: streams, memory allocated in the order of the main stream, and recordings as
// CUDA graphs. Kernels reach it through the call: DeviceOf(call).stream().
#pragma once
#include <cuda_runtime_api.h>

#include <set>
#include <source_location>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "weft/core/base/device_runtime.h"
#include "weft/core/runtime/kernel.h"
#include "weft/core/runtime/streams.h"
#include "weft/core/runtime/timeline.h"

struct cublasLtContext;  // its handle is a pointer to it (blas.h)

namespace weft::cuda {

// Throws Error that names the call and its place in the source if `status` is a failure.
void Check(cudaError_t status, const char* call, std::source_location at = std::source_location::current());
#define WEFT_CUDA(call) ::weft::cuda::Check((call), #call)
// Use after a launch. A bad configuration is reported at once, a fault of the kernel by the next call that waits.
#define WEFT_CUDA_LAUNCHED(kernel) ::weft::cuda::Check(cudaGetLastError(), kernel)

// Returns the UUIDs of this host's GPUs, in CUDA's order. Throws as CudaDevice does.
std::vector<std::string> GpuNames();

// Returns whether this build's kernels can wait for the previous kernel on the current GPU, as launch.cuh describes.
bool KernelsCanWait();

class CudaDevice final : public StreamedDevice, public KeepsTime {
 public:
  // Throws Error that explains the fault if there is no driver, no such GPU, or a GPU too old for the kernels built in.
  explicit CudaDevice(int index);
  ~CudaDevice() override;

  Device device() const override { return {DeviceKind::kCuda, index_}; }
  std::string name() const override { return name_; }
  BufferPtr Allocate(size_t bytes) override;
  BufferPtr TryAllocateStaging(size_t bytes) override;
  void Copy(void* to, const void* from, size_t bytes) override;
  void Fill(void* data, uint8_t byte, size_t bytes) override;
  void Synchronize() override;
  void SynchronizeStreams();  // waits for the work of all its streams, while none records
  std::unique_ptr<Event> NewEvent() override;
  std::unique_ptr<Recording> Record(absl::FunctionRef<void()> fn) override;
  std::unique_ptr<Timeline> NewTimeline(size_t most) override;
  Memory MemoryNow() const override;

  std::unique_ptr<Stream> NewStream() override;
  std::unique_ptr<Progress> NewProgress() override;
  std::vector<const void*> Frontier() const override;
  void Wait(Event& event) override;
  void CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                int64_t rows) override;
  void Narrow(BF16* to, const float* from, int64_t count) override;
  void Widen(float* to, const BF16* from, int64_t count) override;
  void SumChunks(void* to, DType dtype, const BF16* chunks, int64_t num_chunks, int64_t count) override;
  void* Handle() override { return stream_; }
  void ReturnUnused() override;

  using StreamedDevice::ThrowFailure;
  cudaStream_t stream() const { return stream_; }  // the current stream
  cublasLtContext* blas() const { return blas_; }
  int multiprocessors() const { return multiprocessors_; }
  int capability() const { return capability_; }               // 90 for Hopper
  size_t shared_bytes() const { return shared_bytes_; }        // maximum dynamic shared memory per block
  bool kernels_can_wait() const { return kernels_can_wait_; }  // see launch.cuh
  // Counters that are 0 between kernels. With them, blocks find out which one finishes last (ComesLast of block.cuh).
  // All kernels that use them must run in one stream.
  static constexpr size_t kTickets = 1024;
  uint32_t* tickets() const { return tickets_; }

  // Returns the state that a family of kernels keeps with the device, for example plans. It is created on first use and
  // destroyed with the device.
  template <class T>
  T& Kept() {
    std::shared_ptr<void>& slot = kept_[typeid(T)];
    if (!slot) slot = std::make_shared<T>(*this);
    return *static_cast<T*>(slot.get());
  }

 private:
  Stream* Use(Stream* stream) override;
  size_t MostInside() const override;
  void ForgetMostInside() override;

  int index_, multiprocessors_ = 0, capability_ = 0;
  size_t shared_bytes_ = 0;
  bool kernels_can_wait_ = false;
  std::string name_;
  cudaMemPool_t pool_ = nullptr;
  cudaStream_t main_ = nullptr, stream_ = nullptr;  // the main stream and the current one
  std::set<cudaStream_t> others_;                   // that NewStream has made
  Stream* current_ = nullptr;                       // null: the main stream is current
  cublasLtContext* blas_ = nullptr;
  uint32_t* tickets_ = nullptr;
  std::unordered_map<std::type_index, std::shared_ptr<void>> kept_;
};

inline CudaDevice& DeviceOf(const KernelCall& call) {
  return static_cast<CudaDevice&>(call.context->device(DeviceKind::kCuda));
}

}  // namespace weft::cuda
