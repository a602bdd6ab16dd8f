#include "fuzz/allocation_bound.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

// Targets run on one thread. Allocations of other threads need not be counted exactly.
constexpr size_t kNone = ~size_t{0};
std::atomic<size_t> most_at_once{kNone}, most_live{kNone}, largest{0}, live{0}, before{0}, peak{0};

void Refuse(const char* what, size_t bytes, size_t most) {
  most_at_once = most_live = kNone;
  std::fprintf(stderr, "broken: %s of %zu bytes, above %zu\n", what, bytes, most);
  std::abort();
}

void Raise(std::atomic<size_t>& to, size_t value) {
  if (value > to) to = value;
}

void* Allocate(size_t bytes, size_t alignment) {
  if (bytes == 0) bytes = 1;
  Raise(largest, bytes);
  if (bytes > most_at_once) Refuse("an allocation", bytes, most_at_once);
  void* p = alignment <= alignof(std::max_align_t)
                ? std::malloc(bytes)
                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!p) return p;
  size_t now = live += malloc_usable_size(p);
  Raise(peak, now);
  if (now > most_live && most_live != kNone) Refuse("allocations", now, most_live);
  return p;
}

void* AllocateOrThrow(size_t bytes, size_t alignment) {
  if (void* p = Allocate(bytes, alignment)) return p;
  throw std::bad_alloc();
}

void Free(void* p) {
  if (p) live -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

namespace weft::fuzz {

AllocationBound::AllocationBound(size_t input, const Need& need) {
  largest = 0;
  before = live.load();
  peak = live.load();
  most_at_once = kLargestTimes * input + need.largest;
  most_live = live + need.live_times * input + need.live;
}
AllocationBound::~AllocationBound() { most_at_once = most_live = kNone; }
size_t AllocationBound::Largest() { return largest; }
size_t AllocationBound::LivePeak() { return peak - before; }

}  // namespace weft::fuzz

// Not inlined. Otherwise GCC would warn that memory from malloc reaches delete and memory from new reaches free.
#define WEFT_NOINLINE __attribute__((noinline))
WEFT_NOINLINE void* operator new(size_t bytes) { return AllocateOrThrow(bytes, 1); }
WEFT_NOINLINE void* operator new(size_t bytes, std::align_val_t a) { return AllocateOrThrow(bytes, size_t(a)); }
WEFT_NOINLINE void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
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
