#include "heap_counter.h"

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> allocations{0}, in_use{0}, peak{0}, at_restart{0};

void* Allocate(size_t bytes, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (bytes == 0) bytes = 1;
  void* p = alignment <= alignof(std::max_align_t)
                ? std::malloc(bytes)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  long usable = long(malloc_usable_size(p)), now = in_use.fetch_add(usable) + usable, most = peak.load();
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return p;
}

void Free(void* p) {
  in_use.fetch_sub(long(malloc_usable_size(p)));
  std::free(p);
}

void* AllocateOrThrow(size_t bytes, size_t alignment) {
  if (void* p = Allocate(bytes, alignment)) return p;
  throw std::bad_alloc();
}

}  // namespace

long weft::test::HeapAllocations() { return allocations.load(); }
void weft::test::RestartHeapPeak() {
  at_restart = in_use.load();
  peak = in_use.load();
}
long weft::test::HeapPeak() { return peak.load() - at_restart.load(); }

// Not inlined. Otherwise GCC would warn that memory from malloc reaches delete and memory from new reaches free.
#define WEFT_NOINLINE __attribute__((noinline))
WEFT_NOINLINE void* operator new(size_t bytes) { return AllocateOrThrow(bytes, 1); }
WEFT_NOINLINE void* operator new(size_t bytes, std::align_val_t a) { return AllocateOrThrow(bytes, size_t(a)); }
WEFT_NOINLINE void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
// The array forms are replaced too, because a sanitizer's runtime has its own, which do not call the ones above.
WEFT_NOINLINE void* operator new[](size_t bytes) { return AllocateOrThrow(bytes, 1); }
WEFT_NOINLINE void* operator new[](size_t bytes, std::align_val_t a) { return AllocateOrThrow(bytes, size_t(a)); }
WEFT_NOINLINE void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
WEFT_NOINLINE void operator delete[](void* p) noexcept { Free(p); }
WEFT_NOINLINE void operator delete[](void* p, size_t) noexcept { Free(p); }
WEFT_NOINLINE void operator delete[](void* p, std::align_val_t) noexcept { Free(p); }
WEFT_NOINLINE void operator delete[](void* p, size_t, std::align_val_t) noexcept { Free(p); }
WEFT_NOINLINE void operator delete(void* p) noexcept { Free(p); }
WEFT_NOINLINE void operator delete(void* p, size_t) noexcept { Free(p); }
WEFT_NOINLINE void operator delete(void* p, std::align_val_t) noexcept { Free(p); }
WEFT_NOINLINE void operator delete(void* p, size_t, std::align_val_t) noexcept { Free(p); }
