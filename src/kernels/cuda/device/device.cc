#include "weft/kernels/cuda/device/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "weft/core/base/error.h"
#include "weft/kernels/cuda/device/blas.h"
#include "weft/kernels/cuda/device/branches.h"
#include "weft/kernels/cuda/device/locked_memory.h"
#include "weft/kernels/cuda/device/progress.h"
#include "weft/kernels/cuda/device/support.h"
#include "weft/kernels/cuda/device/timeline.h"

namespace weft::cuda {
namespace {

std::string PlaceOf(const std::source_location& at) { return fmt::format("{}:{}", at.file_name(), at.line()); }

class CudaEvent final : public DeviceRuntime::Event {
 public:
  explicit CudaEvent(const CudaDevice& device) : device_(device) {
    WEFT_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  ~CudaEvent() override {
    cudaSetDevice(device_.device().index);
    cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }
  void Record() override { WEFT_CUDA(cudaEventRecord(event_, device_.stream())); }
  // May be called by threads that have not used the device. Without cudaSetDevice the query would use another device
  // and take memory there.
  bool Done() override {
    device_.ThrowFailure();
    WEFT_CUDA(cudaSetDevice(device_.device().index));
    cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    Check(status, "cudaEventQuery");
    return true;
  }

 private:
  const CudaDevice& device_;
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public StreamedDevice::Stream {
 public:
  // It is among `streams` while it lives.
  explicit CudaStream(std::set<cudaStream_t>& streams) : streams_(streams) {
    WEFT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    streams_.insert(stream_);
  }
  // While an exception unwinds, the stream may hold work that never ends, for example calls of a rank that has died.
  ~CudaStream() override {
    if (std::uncaught_exceptions() == 0) cudaStreamSynchronize(stream_);
    streams_.erase(stream_);
    cudaStreamDestroy(stream_);
  }
  cudaStream_t get() const { return stream_; }

 private:
  std::set<cudaStream_t>& streams_;
  cudaStream_t stream_ = nullptr;
};

class CudaRecording final : public StreamRecording {
 public:
  CudaRecording(StreamedDevice& device, std::vector<std::function<void()>> before, cudaStream_t stream,
                cudaGraph_t graph)
      : StreamRecording(device, std::move(before)), stream_(stream) {
    cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
    cudaGraphDestroy(graph);
    Check(status, "cudaGraphInstantiate");
    WEFT_CUDA(cudaGraphUpload(exec_, stream_));
  }
  ~CudaRecording() override { cudaGraphExecDestroy(exec_); }

 private:
  void Issue() override { WEFT_CUDA(cudaGraphLaunch(exec_, stream_)); }

  cudaStream_t stream_;
  cudaGraphExec_t exec_ = nullptr;
};

// Throws Error that explains why CUDA has no GPU for this rank, if it has none.
void CheckDriver(int index) {
  DriverFacts facts;
  WEFT_CUDA(cudaDriverGetVersion(&facts.driver));  // 0 if there is none
  WEFT_CUDA(cudaRuntimeGetVersion(&facts.runtime));
  cudaError_t status = cudaGetDeviceCount(&facts.gpus);
  if (status == cudaErrorStubLibrary) facts.driver = 0;  // the toolkit's stub instead of a driver
  facts.runs = status != cudaErrorInsufficientDriver;
  if (status != cudaSuccess) facts.gpus = 0;
  bool told = status == cudaErrorInsufficientDriver || status == cudaErrorNoDevice || status == cudaErrorStubLibrary;
  if (status != cudaSuccess && !told)
    facts.error = fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  if (std::string fault = DriverFault(facts, index); !fault.empty()) Fail(fault);
}

// CUDA and its libraries also allocate memory for themselves: for kernels when they are first used, and for graphs.
[[noreturn]] void FailOutOfMemory(const std::string& call) {
  int index = 0;
  Memory memory;
  cudaGetLastError();  // this failure is reported here; the next call starts clean
  cudaGetDevice(&index);
  cudaMemGetInfo(&memory.free, &memory.total);
  Fail(OutOfMemory({.where = ToString(Device{DeviceKind::kCuda, index}), .what = call, .memory = memory}));
}

}  // namespace

void Check(cudaError_t status, const char* call, std::source_location at) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // otherwise the next launch reports it again
  if (status == cudaErrorMemoryAllocation) FailOutOfMemory(fmt::format("{} at {}", call, PlaceOf(at)));
  Fail(fmt::format("{} at {}: CUDA says {} ({})", call, PlaceOf(at), cudaGetErrorString(status),
                   cudaGetErrorName(status)));
}

void Check(cublasStatus_t status, const char* call, std::source_location at) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) FailOutOfMemory(fmt::format("{} at {}", call, PlaceOf(at)));
  Fail(fmt::format("{} at {}: cuBLASLt says {}", call, PlaceOf(at), cublasLtGetStatusString(status)));
}

std::vector<std::string> GpuNames() {
  CheckDriver(0);
  int gpus = 0;
  WEFT_CUDA(cudaGetDeviceCount(&gpus));
  std::vector<std::string> names;
  for (int i = 0; i < gpus; i++) {
    cudaDeviceProp properties{};
    WEFT_CUDA(cudaGetDeviceProperties(&properties, i));
    auto* bytes = reinterpret_cast<const unsigned char*>(properties.uuid.bytes);
    names.push_back(fmt::format("{:02x}", fmt::join(bytes, bytes + sizeof(properties.uuid.bytes), "")));
  }
  return names;
}

CudaDevice::CudaDevice(int index) : index_(index) {
  CheckDriver(index);
  WEFT_CUDA(cudaSetDevice(index));
  cudaDeviceProp properties{};
  WEFT_CUDA(cudaGetDeviceProperties(&properties, index));
  name_ = properties.name;
  capability_ = properties.major * 10 + properties.minor;
  if (std::string fault = GpuFault(index, name_, capability_, WEFT_CUDA_ARCH); !fault.empty()) Fail(fault);
  multiprocessors_ = properties.multiProcessorCount;
  shared_bytes_ = properties.sharedMemPerBlockOptin;
  WEFT_CUDA(cudaDeviceGetDefaultMemPool(&pool_, index));
  // Freed memory stays with the process. Otherwise an eager step would return its memory and fetch it again.
  uint64_t keep = UINT64_MAX;
  WEFT_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
  WEFT_CUDA(cudaStreamCreateWithFlags(&main_, cudaStreamNonBlocking));
  stream_ = main_;
  Check(cublasLtCreate(&blas_), "cublasLtCreate");
  WEFT_CUDA(cudaMalloc(reinterpret_cast<void**>(&tickets_), kTickets * sizeof(uint32_t)));
  WEFT_CUDA(cudaMemsetAsync(tickets_, 0, kTickets * sizeof(uint32_t), stream_));
  kernels_can_wait_ = KernelsCanWait();
}

CudaDevice::~CudaDevice() {
  cudaStreamSynchronize(main_);
  kept_.clear();  // while the stream still exists
  cublasLtDestroy(blas_);
  cudaFree(tickets_);
  cudaStreamDestroy(main_);
}

BufferPtr CudaDevice::Allocate(size_t bytes) {
  void* data = nullptr;
  cudaError_t status = cudaMallocAsync(&data, bytes ? bytes : 1, main_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // this failure is reported here; the next call starts clean
    Fail(OutOfMemory({.where = PlaceOf(*this), .asked = bytes, .memory = MemoryNow()}));
  }
  Check(status, "cudaMallocAsync");
  auto free = [](Buffer& buffer) { cudaFreeAsync(buffer.data(), static_cast<CudaDevice&>(buffer.runtime()).main_); };
  return std::make_shared<Buffer>(data, bytes, device(), free, this);
}

BufferPtr CudaDevice::TryAllocateStaging(size_t bytes) { return AllocateLocked(bytes); }

void CudaDevice::Copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) WEFT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
}

void CudaDevice::Fill(void* data, uint8_t byte, size_t bytes) {
  if (bytes > 0) WEFT_CUDA(cudaMemsetAsync(data, byte, bytes, stream_));
}

void CudaDevice::Synchronize() {
  ThrowFailure();
  WEFT_CUDA(cudaStreamSynchronize(stream_));
  ThrowFailure();
}

// Other ranks of the process may use the same GPU and record, so it does not wait for the whole GPU.
void CudaDevice::SynchronizeStreams() {
  ThrowFailure();
  WEFT_CUDA(cudaStreamSynchronize(main_));
  for (cudaStream_t stream : others_) WEFT_CUDA(cudaStreamSynchronize(stream));
  ThrowFailure();
}

std::unique_ptr<DeviceRuntime::Event> CudaDevice::NewEvent() { return std::make_unique<CudaEvent>(*this); }

std::unique_ptr<Timeline> CudaDevice::NewTimeline(size_t most) { return std::make_unique<CudaTimeline>(*this, most); }

std::unique_ptr<StreamedDevice::Stream> CudaDevice::NewStream() { return std::make_unique<CudaStream>(others_); }

std::unique_ptr<StreamedDevice::Progress> CudaDevice::NewProgress() { return std::make_unique<CudaProgress>(*this); }

std::vector<const void*> CudaDevice::Frontier() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;  // without a place for them the call fails if there are any
  size_t count = 0;
  WEFT_CUDA(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &nodes, &edges, &count));
  return status == cudaStreamCaptureStatusActive ? std::vector<const void*>(nodes, nodes + count)
                                                 : std::vector<const void*>();
}

void CudaDevice::Wait(Event& event) { WEFT_CUDA(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).get())); }

StreamedDevice::Stream* CudaDevice::Use(Stream* stream) {
  stream_ = stream ? static_cast<CudaStream*>(stream)->get() : main_;
  return std::exchange(current_, stream);
}

void CudaDevice::CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                          int64_t rows) {
  if (bytes == 0 || rows == 0) return;
  WEFT_CUDA(cudaMemcpy2DAsync(to, size_t(to_stride), from, size_t(from_stride), size_t(bytes), size_t(rows),
                              cudaMemcpyDefault, stream_));
}

std::unique_ptr<DeviceRuntime::Recording> CudaDevice::Record(absl::FunctionRef<void()> fn) {
  if (!records()) return nullptr;
  WEFT_CUDA(cudaStreamBeginCapture(main_, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  Calls before;
  try {
    before = RecordCalls(fn);
    Kept<Branches>().Join();
  } catch (...) {
    Kept<Branches>().Forget();
    cudaStreamEndCapture(main_, &graph);  // the stream must leave the capture; the exception of fn explains more
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();  // otherwise the next launch reports it again
    throw;
  }
  WEFT_CUDA(cudaStreamEndCapture(main_, &graph));
  return std::make_unique<CudaRecording>(*this, std::move(before), main_, graph);
}

// Unused memory of the pool counts as free, because the pool hands it out again.
Memory CudaDevice::MemoryNow() const {
  Memory memory;
  uint64_t reserved = 0, used = 0;
  WEFT_CUDA(cudaMemGetInfo(&memory.free, &memory.total));
  WEFT_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &reserved));
  WEFT_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used));
  memory.free += reserved - used;
  return memory;
}

// CUDA does not say whether a mark that was reset is 0 or what is in use until the next allocation.
size_t CudaDevice::MostInside() const {
  uint64_t most = 0, used = 0;
  WEFT_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &most));
  WEFT_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &used));
  return std::max(most, used);
}

void CudaDevice::ForgetMostInside() {
  uint64_t reset = 0;  // no other value may be set
  WEFT_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &reset));
}

void CudaDevice::ReturnUnused() {
  WEFT_CUDA(cudaStreamSynchronize(main_));
  WEFT_CUDA(cudaMemPoolTrimTo(pool_, 0));
}

}  // namespace weft::cuda
