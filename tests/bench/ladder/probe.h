// Helpers for probes: calls that are checked and described, random data, and medians of timed replays.
//   Check(cudaMalloc(&p, n), "allocate Q");   Buffer<__nv_bfloat16> q(n, seed);
//   float ms = MedianMs(stream, 20, launch);
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

using bf16 = __nv_bfloat16;

inline void Check(cudaError_t status, const std::string& what) {
  if (status != cudaSuccess) throw std::runtime_error(what + ": " + cudaGetErrorString(status));
}

// An integer hash. Neighbouring indices and seeds give unrelated bits, so products get data as uneven as real values.
__host__ __device__ inline uint32_t Mix(uint32_t h) {
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15)) * 0x846ca68bu;
  return h ^ (h >> 16);
}

// Returns the sum of four uniforms, which is nearly normal with mean 0 and variance 1.
__host__ __device__ inline float Normal(uint64_t i, uint32_t seed) {
  const uint32_t a = Mix(uint32_t(i) ^ Mix(seed ^ uint32_t(i >> 32))), b = Mix(a ^ 0x9e3779b9u);
  const float sum = float(a & 0xffff) + float(a >> 16) + float(b & 0xffff) + float(b >> 16);
  return (sum / 65536.f - 2.f) * 1.7320508f;
}

template <typename T>
__global__ void FillNormal(T* out, size_t n, uint32_t seed, float mean, float deviation) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    out[i] = T(mean + deviation * Normal(i, seed));
}

// Device memory of n elements, with normal values from a seed. Without a seed it is poisoned (NaN in every float type).
template <typename T>
class Buffer {
 public:
  explicit Buffer(size_t n) : n_(n) {
    Check(cudaMalloc(&data_, n * sizeof(T)), "allocate " + std::to_string(n * sizeof(T)) + " bytes");
    Poison();
  }
  Buffer(size_t n, uint32_t seed, float mean = 0, float deviation = 1) : Buffer(n) {
    FillNormal<<<1024, 256>>>(data_, n, seed, mean, deviation);
    Check(cudaDeviceSynchronize(), "fill a buffer");
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void Poison() { Check(cudaMemset(data_, 0xff, n_ * sizeof(T)), "poison a buffer"); }
  T* data() const { return data_; }
  size_t size() const { return n_; }
  std::vector<float> Host() const {
    std::vector<T> raw(n_);
    Check(cudaMemcpy(raw.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost), "copy a buffer to the host");
    return std::vector<float>(raw.begin(), raw.end());
  }

 private:
  T* data_ = nullptr;
  size_t n_;
};

// Returns ||out - ref|| / ||ref||. A NaN in either one gives NaN.
template <typename A, typename B>
double RelativeError(const std::vector<A>& out, const std::vector<B>& ref) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < ref.size(); ++i) {
    difference += (double(out.at(i)) - ref[i]) * (double(out[i]) - ref[i]);
    norm += double(ref[i]) * ref[i];
  }
  return std::sqrt(difference / norm);
}

// Returns |got - expected| divided by the tolerance; above 1 is wrong. NaN gives 1e9, because JSON has no infinity.
inline float Excess(double got, double expected, double tolerance) {
  const double error = std::abs(got - expected) / tolerance;
  return std::isfinite(error) ? float(error) : 1e9f;
}

// Returns one element of device memory. Waits only for the default stream.
template <typename T>
float Fetch(const T* from) {
  T value;
  Check(cudaMemcpy(&value, from, sizeof value, cudaMemcpyDeviceToHost), "fetch a sample");
  return float(value);
}

inline float Median(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Returns the median of `repeats` calls after three warm-up calls, each between two events of the stream.
inline float MedianMs(cudaStream_t stream, int repeats, const std::function<void()>& launch) {
  cudaEvent_t begin, end;
  Check(cudaEventCreate(&begin), "create an event");
  Check(cudaEventCreate(&end), "create an event");
  std::vector<float> times;
  for (int i = 0; i < repeats + 3; ++i) {
    float ms = 0;
    Check(cudaEventRecord(begin, stream), "record the start");
    launch();
    Check(cudaEventRecord(end, stream), "record the end");
    Check(cudaEventSynchronize(end), "run a timed launch");
    Check(cudaEventElapsedTime(&ms, begin, end), "read a time");
    if (i >= 3) times.push_back(ms);
  }
  Check(cudaEventDestroy(begin), "destroy an event");
  Check(cudaEventDestroy(end), "destroy an event");
  return Median(times);
}

// Captures what `body` issues on the stream, and on streams joined to it, as a graph.
inline cudaGraph_t CaptureGraph(cudaStream_t stream, const std::function<void()>& body) {
  cudaGraph_t graph;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin a capture");
  body();
  Check(cudaStreamEndCapture(stream, &graph), "end a capture");
  return graph;
}

// Captures a graph and makes it executable.
inline cudaGraphExec_t Capture(cudaStream_t stream, const std::function<void()>& body) {
  cudaGraph_t graph = CaptureGraph(stream, body);
  cudaGraphExec_t executable;
  Check(cudaGraphInstantiate(&executable, graph, 0), "instantiate a graph");
  Check(cudaGraphDestroy(graph), "destroy a captured graph");
  return executable;
}

inline std::string DeviceLine() {
  cudaDeviceProp p;
  int driver = 0, runtime = 0;
  Check(cudaGetDeviceProperties(&p, 0), "read the device's properties");
  Check(cudaDriverGetVersion(&driver), "read the driver's version");
  Check(cudaRuntimeGetVersion(&runtime), "read the runtime's version");
  return std::string("\"device\":\"") + p.name + "\",\"driver_cuda\":" + std::to_string(driver) +
         ",\"cuda\":" + std::to_string(runtime);
}
