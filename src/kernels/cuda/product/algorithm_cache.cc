#include "weft/kernels/cuda/product/algorithm_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

constexpr int kGuesses = 8;
constexpr int kSamples = 5;                  // most samples, of which the median counts
constexpr float kMostMilliseconds = 4;       // of the samples together, about: a long product needs fewer of them
constexpr float kSampleMilliseconds = 0.2f;  // as many launches as take about this long
constexpr int kMostLaunches = 20;
// Candidates that take at most so many times as long as the best in a burst may be the fastest under load. Shorter
// products are a small part of a step.
constexpr float kClose = 1.15f, kLongMilliseconds = 0.05f;
constexpr float kFar = 1.3f;  // a long candidate whose first launch takes so many times as long is not the fastest
constexpr float kReplayMilliseconds = 1;  // so that the host issues replays faster than they run
constexpr double kWorthTuning = 1 << 24;  // multiplications; below it a launch takes as long as the product
constexpr size_t kWholeVector = 16;       // the library gains nothing from a larger alignment

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmWords));

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

// Returns how many samples to take if one takes so many milliseconds. The number is odd, as the median counts.
int SamplesOf(float sample_ms) { return std::clamp(int(kMostMilliseconds / sample_ms), 1, kSamples) | 1; }

DType ResultType(const Product& p) { return p.wide ? AccumulateType(p.dtype) : p.dtype; }

cublasComputeType_t ComputeTypeOf(const Product& product) {
  if (product.dtype == DType::kF64) return CUBLAS_COMPUTE_64F;
  return product.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// Returns the largest power of two up to 16 that divides the address.
int64_t AlignmentOf(const void* data) {
  uintptr_t bits = reinterpret_cast<uintptr_t>(data) | kWholeVector;
  return int64_t(bits & (~bits + 1));
}

template <class T>
void Set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name, T value) {
  WEFT_CUDA(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof(value)));
}
template <class T>
void Set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name, T value) {
  WEFT_CUDA(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof(value)));
}

void SetLayout(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, int64_t rows, int64_t columns, int64_t ld,
               int64_t batch, int64_t stride) {
  WEFT_CUDA(cublasLtMatrixLayoutInit(&layout, TypeOf(dtype), uint64_t(rows), uint64_t(columns), ld));
  if (batch == 1) return;
  int32_t count = int32_t(batch);
  WEFT_CUDA(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
  WEFT_CUDA(
      cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)));
}

AlgorithmWords WordsOf(const cublasLtMatmulAlgo_t& algorithm) {
  AlgorithmWords words;
  std::memcpy(words.data(), &algorithm, sizeof(words));
  return words;
}

}  // namespace

AlgorithmCache::AlgorithmCache(CudaDevice& device)
    : device_(device),
      blas_(device.blas()),
      stream_(device.stream()),
      tune_(MayTime()),
      under_load_(TimesUnderLoad()),
      load_times_(stream_),
      file_(AlgorithmPath(fmt::format("{}{}", cublasLtGetVersion(), under_load_ ? "-settled" : ""), device.name()),
            fmt::format("cublasLt {} on {}, timed in recordings{}", cublasLtGetVersion(), device.name(),
                        under_load_ ? " under load" : "")) {
  WEFT_CUDA(cudaEventCreate(&start_));
  WEFT_CUDA(cudaEventCreate(&stop_));
}

AlgorithmCache::~AlgorithmCache() {
  cudaEventDestroy(start_);
  cudaEventDestroy(stop_);
}

bool AlgorithmCache::Run(const Product& product, const Memory& memory) {
  if (product.batch > INT32_MAX) return false;
  ProductKey key =
      KeyOf(product, AlignmentOf(memory.a), AlignmentOf(memory.b), AlignmentOf(memory.d), memory.workspace_bytes);
  auto at = entries_.find(key);
  if (at == entries_.end()) at = entries_.emplace(key, MakeEntry(product)).first;
  Entry& entry = at->second;
  if (!entry.settled && !(entry.usable && Capturing())) Choose(entry, product, key, memory);
  if (!entry.usable) return false;
  Check(Launch(entry, memory), "cublasLtMatmul");
  return true;
}

AlgorithmCache::Entry AlgorithmCache::MakeEntry(const Product& p) const {
  Entry entry{};
  entry.is_f64 = p.dtype == DType::kF64;
  entry.accumulate = p.accumulate;
  entry.bias = p.bias;
  cudaDataType_t scale = entry.is_f64 ? CUDA_R_64F : CUDA_R_32F;
  WEFT_CUDA(cublasLtMatmulDescInit(&entry.operation, ComputeTypeOf(p), scale));
  Set(&entry.operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  Set(&entry.operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  int64_t a_rows = p.transpose_a ? p.k : p.m, b_rows = p.transpose_b ? p.n : p.k;
  SetLayout(entry.a, p.dtype, a_rows, p.m + p.k - a_rows, p.lda, p.batch, p.stride_a);
  SetLayout(entry.b, p.dtype, b_rows, p.k + p.n - b_rows, p.ldb, p.batch, p.stride_b);
  SetLayout(entry.d, ResultType(p), p.m, p.n, p.ldd, p.batch, p.stride_d);
  if (p.bias) Set(&entry.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  return entry;
}

// A capture records work without running it, so nothing can be timed in it.
void AlgorithmCache::Choose(Entry& entry, const Product& p, const ProductKey& key, const Memory& memory) {
  bool worth = tune_ && double(p.batch) * double(p.m) * double(p.n) * double(p.k) >= kWorthTuning;
  entry.settled = true;
  if (worth && Recall(entry, key, memory)) return;
  Guesses guesses = Ask(entry, memory);
  entry.usable = !guesses.empty();
  if (!entry.usable) return;
  entry.algorithm = guesses[0];
  if (!worth || guesses.size() == 1) return;
  if (Capturing())
    entry.settled = false;
  else
    Tune(entry, p, key, guesses, memory);
}

AlgorithmCache::Guesses AlgorithmCache::Ask(Entry& entry, const Memory& memory) const {
  cublasLtMatmulPreferenceOpaque_t preference;
  WEFT_CUDA(cublasLtMatmulPreferenceInit(&preference));
  Set(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(memory.workspace_bytes));
  // Partial sums of a split sum stay in the compute type. In the output type they would lose bits.
  Set(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t(AlignmentOf(memory.a)));
  Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t(AlignmentOf(memory.b)));
  Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t(AlignmentOf(memory.d)));
  Set(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t(AlignmentOf(memory.d)));
  std::array<cublasLtMatmulHeuristicResult_t, kGuesses> results;
  int count = 0;
  cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(blas_, &entry.operation, &entry.a, &entry.b, &entry.d,
                                                         &entry.d, &preference, kGuesses, results.data(), &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) Check(status, "cublasLtMatmulAlgoGetHeuristic");
  Guesses guesses;
  for (int i = 0; i < count; i++)
    if (results[size_t(i)].state == CUBLAS_STATUS_SUCCESS) guesses.push_back(results[size_t(i)].algo);
  return guesses;
}

// Takes the algorithm in the file if there is one and the library still accepts it. Returns whether it did.
bool AlgorithmCache::Recall(Entry& entry, const ProductKey& key, const Memory& memory) {
  if (!known_) known_ = file_.Read();
  auto at = known_->find(key);
  if (at == known_->end()) return false;
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, at->second.data(), sizeof(algorithm));
  cublasLtMatmulHeuristicResult_t result{};
  cublasStatus_t status =
      cublasLtMatmulAlgoCheck(blas_, &entry.operation, &entry.a, &entry.b, &entry.d, &entry.d, &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > memory.workspace_bytes) return false;
  entry.algorithm = algorithm;
  return entry.usable = true;
}

void AlgorithmCache::Tune(Entry& entry, const Product& p, const ProductKey& key, const Guesses& guesses,
                          Memory memory) {
  // Waits for the work of all streams before it takes the lock: a collective may wait for a rank that waits for the
  // lock, and while a collective runs the library may wait for it when it loads a kernel.
  device_.SynchronizeStreams();
  AlgorithmFile::Lock lock(file_);
  known_ = file_.Read();
  if (Recall(entry, key, memory)) return;  // another rank has just timed it
  // If C is D, every launch would add to it again, so the results go to other memory.
  void* scratch = nullptr;
  if (p.accumulate && memory.c == memory.d) {
    int64_t elements = p.stride_d * (p.batch - 1) + p.ldd * p.n;
    cudaError_t status = cudaMallocAsync(&scratch, size_t(elements) * SizeOf(ResultType(p)), stream_);
    if (status == cudaErrorMemoryAllocation) {  // the library's first candidate must do
      cudaGetLastError();
      return;
    }
    Check(status, "cudaMallocAsync");
    memory.d = scratch;
  }
  entry.algorithm = Fastest(entry, guesses, memory);
  if (scratch) WEFT_CUDA(cudaFreeAsync(scratch, stream_));
  if (entry.usable) file_.Add(key, WordsOf(entry.algorithm));
}

cublasLtMatmulAlgo_t AlgorithmCache::Fastest(Entry& entry, const Guesses& guesses, const Memory& memory) {
  float best = std::numeric_limits<float>::infinity();
  std::vector<Timed> timed;
  for (const cublasLtMatmulAlgo_t& guess : guesses) {
    entry.algorithm = guess;
    timed.push_back({guess, Time(entry, memory, best)});
    best = std::min(best, timed.back().ms);
  }
  entry.usable = best < std::numeric_limits<float>::infinity();
  std::stable_sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) { return a.ms < b.ms; });
  std::erase_if(timed, [&](const Timed& one) { return !(one.ms <= kClose * best); });
  bool compares = under_load_ && timed.size() > 1 && best >= kLongMilliseconds;
  if (timed.empty()) return guesses[0];
  return compares ? FastestUnderLoad(entry, timed, memory) : timed[0].algorithm;
}

cublasLtMatmulAlgo_t AlgorithmCache::FastestUnderLoad(Entry& entry, const std::vector<Timed>& close,
                                                      const Memory& memory) {
  std::vector<Recording> recordings;
  std::vector<cudaGraphExec_t> all;
  std::vector<float> ms;
  int launches = std::clamp(int(kReplayMilliseconds / close[0].ms), 1, kMostLaunches);
  for (const Timed& one : close) {
    entry.algorithm = one.algorithm;
    Recording recording = Record(entry, memory, launches);
    if (!recording) return close[0].algorithm;
    all.push_back(recording.get());
    recordings.push_back(std::move(recording));
    ms.push_back(one.ms * float(launches));
  }
  std::vector<float> settled = load_times_.Of(all, ms);
  return close[size_t(std::min_element(settled.begin(), settled.end()) - settled.begin())].algorithm;
}

// Returns the milliseconds of one launch; infinite if the algorithm fails.
float AlgorithmCache::Time(Entry& entry, const Memory& memory, float best) {
  if (Launch(entry, memory) != CUBLAS_STATUS_SUCCESS) return std::numeric_limits<float>::infinity();
  float once = Elapsed([&] { Check(Launch(entry, memory), "cublasLtMatmul"); });
  if (once > (once < kSampleMilliseconds ? 2 : kFar) * best) return once;
  return TimeRecorded(entry, memory, once);
}

// Returns the milliseconds per launch in a recording. `once` is about that time. Some algorithms begin with a fill,
// after which a kernel of a recording starts 5 us later. In a step that is a third of a product of 8192 x 768 x 768.
float AlgorithmCache::TimeRecorded(Entry& entry, const Memory& memory, float once) {
  int launches = std::clamp(int(kSampleMilliseconds / once), 1, kMostLaunches);
  Recording recording = Record(entry, memory, launches);
  if (!recording) return std::numeric_limits<float>::infinity();
  std::vector<float> samples(size_t(SamplesOf(once * float(launches))));
  for (float& sample : samples) sample = Elapsed([&] { WEFT_CUDA(cudaGraphLaunch(recording.get(), stream_)); });
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2] / float(launches);
}

// Returns null if the algorithm fails.
AlgorithmCache::Recording AlgorithmCache::Record(Entry& entry, const Memory& memory, int launches) {
  WEFT_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  for (int i = 0; i < launches && status == CUBLAS_STATUS_SUCCESS; i++) status = Launch(entry, memory);
  cudaGraph_t graph = nullptr;
  WEFT_CUDA(cudaStreamEndCapture(stream_, &graph));
  cudaGraphExec_t recording = nullptr;
  cudaError_t made = cudaGraphInstantiate(&recording, graph, 0);
  cudaGraphDestroy(graph);
  Check(made, "cudaGraphInstantiate");
  Recording owned(recording);
  return status == CUBLAS_STATUS_SUCCESS ? std::move(owned) : nullptr;
}

float AlgorithmCache::Elapsed(absl::FunctionRef<void()> issue) {
  WEFT_CUDA(cudaEventRecord(start_, stream_));
  issue();
  WEFT_CUDA(cudaEventRecord(stop_, stream_));
  WEFT_CUDA(cudaEventSynchronize(stop_));
  float milliseconds = 0;
  WEFT_CUDA(cudaEventElapsedTime(&milliseconds, start_, stop_));
  return std::max(milliseconds, 1e-4f);
}

cublasStatus_t AlgorithmCache::Launch(Entry& entry, const Memory& memory) const {
  static constexpr float kOne = 1, kZero = 0;
  static constexpr double kOneF64 = 1, kZeroF64 = 0;
  const void *one = &kOne, *zero = &kZero;
  if (entry.is_f64) one = &kOneF64, zero = &kZeroF64;
  if (entry.bias) Set(&entry.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory.bias);
  const void *beta = entry.accumulate ? one : zero, *c = entry.accumulate ? memory.c : memory.d;
  return cublasLtMatmul(blas_, &entry.operation, one, memory.a, &entry.a, memory.b, &entry.b, beta, c, &entry.d,
                        memory.d, &entry.d, &entry.algorithm, memory.workspace, memory.workspace_bytes, stream_);
}

bool AlgorithmCache::Capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  WEFT_CUDA(cudaStreamIsCapturing(stream_, &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace weft::cuda
