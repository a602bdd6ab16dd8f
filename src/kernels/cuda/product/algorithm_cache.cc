#include "weft/kernels/cuda/product/algorithm_cache.h"

#include <fmt/format.h>

#include <cstring>

#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

constexpr double kWorthTuning = 1 << 24;  // multiplications; below it a launch takes as long as the product

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmWords));

AlgorithmWords WordsOf(const Algorithm& algorithm) {
  AlgorithmWords words;
  std::memcpy(words.data(), &algorithm.words, sizeof(words));
  return words;
}

// Choices are of other candidates, or compared in another way, where the file or its title differs.
AlgorithmFile FileOf(const CudaDevice& device) {
  bool settled = TimesUnderLoad();
  std::string title = fmt::format("cublasLt {} on {}, timed in recordings", cublasLtGetVersion(), device.name());
  if (settled) title += " under load, with algorithms that are not named";
  return {AlgorithmPath(fmt::format("{}{}", cublasLtGetVersion(), settled ? "-settled" : ""), device.name()), title};
}

}  // namespace

AlgorithmCache::AlgorithmCache(CudaDevice& device)
    : device_(device),
      stream_(device.stream()),
      tune_(MayTime()),
      times_(device.blas(), stream_, TimesUnderLoad()),
      file_(FileOf(device)) {}

bool AlgorithmCache::Run(const Product& product, const ProductMemory& memory) {
  if (product.batch > INT32_MAX) return false;
  ProductKey key =
      KeyOf(product, AlignmentOf(memory.a), AlignmentOf(memory.b), AlignmentOf(memory.d), memory.workspace_bytes);
  Entry& entry = entries_.try_emplace(key, product).first->second;
  if (!entry.settled && !(entry.usable && Capturing())) Choose(entry, product, key, memory);
  if (!entry.usable) return false;
  Check(entry.call.Launch(device_.blas(), memory, entry.algorithm, stream_), "cublasLtMatmul");
  return true;
}

// A capture records work without running it, so nothing can be timed in it.
void AlgorithmCache::Choose(Entry& entry, const Product& p, const ProductKey& key, const ProductMemory& memory) {
  bool worth = tune_ && double(p.batch) * double(p.m) * double(p.n) * double(p.k) >= kWorthTuning;
  entry.settled = true;
  if (worth && Recall(entry, key, memory)) return;
  std::vector<Algorithm> named = entry.call.Named(device_.blas(), memory);
  entry.usable = !named.empty();
  if (!entry.usable) return;
  entry.algorithm = named[0];
  if (!worth || (named.size() == 1 && !times_.under_load())) return;
  if (Capturing())
    entry.settled = false;
  else
    Tune(entry, p, key, named, memory);
}

// Takes the algorithm in the file if there is one and the library still accepts it. Returns whether it did.
bool AlgorithmCache::Recall(Entry& entry, const ProductKey& key, const ProductMemory& memory) {
  if (!known_) known_ = file_.Read();
  auto at = known_->find(key);
  if (at == known_->end()) return false;
  Algorithm algorithm;
  std::memcpy(&algorithm.words, at->second.data(), sizeof(algorithm.words));
  if (!Accepts(entry.call.Described(device_.blas(), memory), algorithm)) return false;
  entry.algorithm = algorithm;
  return entry.usable = true;
}

void AlgorithmCache::Tune(Entry& entry, const Product& p, const ProductKey& key, const std::vector<Algorithm>& named,
                          ProductMemory memory) {
  // Waits for the work of all streams before it takes the lock: a collective may wait for a rank that waits for the
  // lock, and while a collective runs the library may wait for it when it loads a kernel.
  device_.SynchronizeStreams();
  // After one wait in vain others would be too: who holds the lock hangs.
  AlgorithmFile::Lock lock(file_, patience_);
  if (!lock.held()) patience_ = std::chrono::milliseconds(0);
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
  std::optional<Algorithm> fastest = times_.Fastest(entry.call, memory, named);
  if (scratch) WEFT_CUDA(cudaFreeAsync(scratch, stream_));
  entry.usable = fastest.has_value();
  if (!fastest) return;
  entry.algorithm = *fastest;
  file_.Add(key, WordsOf(*fastest));
}

bool AlgorithmCache::Capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  WEFT_CUDA(cudaStreamIsCapturing(stream_, &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace weft::cuda
