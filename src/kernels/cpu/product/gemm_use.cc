#include "weft/kernels/cpu/product/gemm_use.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>

#include "weft/core/base/error.h"
#include "weft/core/base/process_memory.h"
#include "weft/kernels/cpu/product/openblas.h"

namespace weft::cpu {
namespace {

// Returns whether `count` buffers can be mapped now, in the way OpenBLAS maps them. Allocates nothing, like all of this
// file: ranks may be threads whose products overlap by chance, so it may run in any step of a compiled program.
bool CanMap(int64_t count) {
  std::array<void*, kMaxGemmThreads + 1> mapped;
  int64_t n = 0;
  for (; n < count; n++) {
    mapped[size_t(n)] = ::mmap(nullptr, kGemmBuffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped[size_t(n)] == MAP_FAILED) break;
  }
  for (int64_t i = 0; i < n; i++) ::munmap(mapped[size_t(i)], kGemmBuffer);
  return n == count;
}

// The buffers of this process's OpenBLAS and the threads that use them.
class Buffers {
 public:
  // Buffers are mapped only while none is in use. OpenBLAS then maps as many as are taken here at one time, and later
  // products find theirs mapped.
  void Enter(int64_t threads) {
    std::unique_lock lock(mutex_);
    demand_ += threads;
    auto enough = [&] { return std::min(demand_, kMaxGemmThreads) <= mapped_; };
    changed_.wait(lock, [&] { return in_use_ == 0 || (enough() && in_use_ + threads <= mapped_); });
    if (!enough()) Map(std::min(demand_, kMaxGemmThreads), threads);
    in_use_ += threads;
    changed_.notify_all();
  }
  void Leave(int64_t threads) {
    std::lock_guard lock(mutex_);
    in_use_ -= threads;
    demand_ -= threads;
    changed_.notify_all();
  }

 private:
  void Map(int64_t count, int64_t threads) {
    int64_t missing = count - mapped_ + 1;  // one more, because another thread may map memory before OpenBLAS does
    if (!CanMap(missing)) {
      demand_ -= threads;
      changed_.notify_all();
      Fail(OutOfMemory(HostShortage(size_t(missing) * kGemmBuffer,
                                    fmt::format("buffers of OpenBLAS, {} for each of {} threads and one to spare",
                                                BytesText(kGemmBuffer), count))));
    }
    const OpenBlas& blas = *LoadedOpenBlas();
    if (blas.take_buffer) {
      std::array<void*, kMaxGemmThreads> taken;
      for (int64_t i = 0; i < count; i++) taken[size_t(i)] = blas.take_buffer(0);
      for (int64_t i = 0; i < count; i++) blas.return_buffer(taken[size_t(i)]);
    }
    mapped_ = count;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t in_use_ = 0, demand_ = 0, mapped_ = 0;  // threads in products; the same plus waiting threads; buffers
};

Buffers& TheBuffers() {
  static Buffers buffers;
  return buffers;
}

}  // namespace

GemmUse::GemmUse(int64_t threads) : threads_(std::min(threads, kMaxGemmThreads)) { TheBuffers().Enter(threads_); }
GemmUse::~GemmUse() { TheBuffers().Leave(threads_); }

}  // namespace weft::cpu
