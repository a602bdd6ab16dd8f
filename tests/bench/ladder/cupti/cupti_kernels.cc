// Records when each kernel of a program runs. The CUDA driver loads this library into any program:
//
//   CUDA_INJECTION64_PATH=libcupti_kernels.so WEFT_KERNELS=kernels.txt build/release/weft train CONFIG
//
// When the program ends, $WEFT_KERNELS has a line per kernel, copy and fill, in order of their start: "BEGIN END BLOCKS
// NAME", with times in nanoseconds. Kernels inside CUDA graphs are included. tests/bench/kernel_times.py sums the lines
// of a step. Recording makes the gaps between kernels longer, but not the kernels.
#include <cupti.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Entry {
  uint64_t begin, end, blocks;
  std::string name;
};

class Trace {
 public:
  void Add(Entry entry) {
    std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  void Write(const char* path) {
    std::lock_guard lock(mutex_);
    FILE* file = std::fopen(path, "w");
    if (!file) return std::perror(path);
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.begin < b.begin; });
    for (const Entry& e : entries_)
      std::fprintf(file, "%llu %llu %llu %s\n", (unsigned long long)e.begin, (unsigned long long)e.end,
                   (unsigned long long)e.blocks, e.name.c_str());
    std::fclose(file);
  }

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

// Never destroyed, because buffers are returned until the very end.
Trace& TheTrace() {
  static auto* trace = new Trace;
  return *trace;
}

constexpr size_t kBufferBytes = 8 << 20, kBufferAlignment = 8;

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *size = kBufferBytes;
  *most_records = 0;  // no limit
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
}

void Record(const CUpti_Activity& record) {
  if (record.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& kernel = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
    uint64_t blocks = uint64_t(kernel.gridX) * uint64_t(kernel.gridY) * uint64_t(kernel.gridZ);
    TheTrace().Add({kernel.start, kernel.end, blocks, kernel.name});
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
    TheTrace().Add({copy.start, copy.end, 0, "memcpy"});
  } else if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& fill = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
    TheTrace().Add({fill.start, fill.end, 0, "memset"});
  }
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) Record(*record);
  std::free(buffer);
}

bool Done(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return true;
  const char* words = "unknown";
  cuptiGetResultString(result, &words);
  std::fprintf(stderr, "cupti_kernels: %s: %s\n", what, words);
  return false;
}

}  // namespace

// The driver calls this when CUDA starts. Returns 1 for success.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  if (!Done(cuptiActivityRegisterCallbacks(GiveBuffer, TakeBuffer), "register")) return 0;
  for (auto kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    if (!Done(cuptiActivityEnable(kind), "enable a kind")) return 0;
  std::atexit([] {
    Done(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "flush");
    if (const char* path = std::getenv("WEFT_KERNELS")) TheTrace().Write(path);
  });
  return 1;
}
