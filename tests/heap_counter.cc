#include "heap_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<long> allocations{0};
}  // namespace

long weft::test::HeapAllocations() { return allocations.load(); }

// Not inlined: GCC would see malloc meet delete, and free meet new.
#define WEFT_NOINLINE __attribute__((noinline))
WEFT_NOINLINE void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
WEFT_NOINLINE void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes ? bytes : 1);
}
WEFT_NOINLINE void operator delete(void* p) noexcept { std::free(p); }
WEFT_NOINLINE void operator delete(void* p, size_t) noexcept { std::free(p); }
