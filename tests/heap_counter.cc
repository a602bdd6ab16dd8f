#include "heap_counter.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<long> allocations{0}, allocations_apart{0};

struct CodeRange {
  std::atomic<uintptr_t> begin{0}, end{0};
  bool Holds(void* frame) const {
    auto at = reinterpret_cast<uintptr_t>(frame);
    return at >= begin && at < end;
  }
};
CodeRange library, maker_function;  // what counts apart, and what in it does not

int FindLibrary(dl_phdr_info* info, size_t, void* name) {
  if (!info->dlpi_name || !std::strstr(info->dlpi_name, static_cast<const char*>(name))) return 0;
  uintptr_t begin = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    uintptr_t at = info->dlpi_addr + segment.p_vaddr;
    begin = std::min(begin, at);
    end = std::max(end, at + segment.p_memsz);
  }
  library.begin = begin;
  library.end = end;
  return 1;
}

bool FindFunction(const char* name) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  Dl_info info;
  ElfW(Sym)* entry = nullptr;
  if (!symbol || !dladdr1(symbol, &info, reinterpret_cast<void**>(&entry), RTLD_DL_SYMENT) || !entry) return false;
  maker_function.begin = reinterpret_cast<uintptr_t>(symbol);
  maker_function.end = maker_function.begin + entry->st_size;
  return true;
}

bool IsApart() {
  if (library.end == 0) return false;
  void* frames[48];
  int depth = backtrace(frames, 48);
  bool apart = false, ordered = false;
  for (int i = 0; i < depth; i++) {
    apart |= library.Holds(frames[i]);
    ordered |= maker_function.Holds(frames[i]);
  }
  return apart && !ordered;
}

void* Allocate(size_t bytes, size_t alignment) {
  (IsApart() ? allocations_apart : allocations).fetch_add(1, std::memory_order_relaxed);
  if (bytes == 0) bytes = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* AllocateOrThrow(size_t bytes, size_t alignment) {
  if (void* p = Allocate(bytes, alignment)) return p;
  throw std::bad_alloc();
}

}  // namespace

long weft::test::HeapAllocations() { return allocations.load(); }
long weft::test::HeapAllocationsApart() { return allocations_apart.load(); }
bool weft::test::CountApart(const char* name, const char* maker) {
  return FindFunction(maker) && dl_iterate_phdr(FindLibrary, const_cast<char*>(name)) != 0;
}

// Not inlined: GCC would see malloc meet delete, and free meet new.
#define WEFT_NOINLINE __attribute__((noinline))
WEFT_NOINLINE void* operator new(size_t bytes) { return AllocateOrThrow(bytes, 1); }
WEFT_NOINLINE void* operator new(size_t bytes, std::align_val_t a) { return AllocateOrThrow(bytes, size_t(a)); }
WEFT_NOINLINE void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
// Of arrays too: a sanitizer's runtime has its own, which do not come through the ones above.
WEFT_NOINLINE void* operator new[](size_t bytes) { return AllocateOrThrow(bytes, 1); }
WEFT_NOINLINE void* operator new[](size_t bytes, std::align_val_t a) { return AllocateOrThrow(bytes, size_t(a)); }
WEFT_NOINLINE void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
WEFT_NOINLINE void operator delete[](void* p) noexcept { std::free(p); }
WEFT_NOINLINE void operator delete[](void* p, size_t) noexcept { std::free(p); }
WEFT_NOINLINE void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
WEFT_NOINLINE void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }
WEFT_NOINLINE void operator delete(void* p) noexcept { std::free(p); }
WEFT_NOINLINE void operator delete(void* p, size_t) noexcept { std::free(p); }
WEFT_NOINLINE void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
WEFT_NOINLINE void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
