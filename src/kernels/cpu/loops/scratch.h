// A kernel's workspace, handed out piece by piece. The same code computes its size (with a null start) and divides it.
#pragma once
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {

// Hands out pieces of a call's workspace, aligned to 64 bytes. With a null start it only counts bytes.
class Scratch {
 public:
  explicit Scratch(void* start) : start_(static_cast<char*>(start)) {}
  template <class T>
  T* Take(int64_t n) {
    size_t at = used_;
    used_ += size_t(RoundUp(n * int64_t(sizeof(T)), 64));
    return start_ ? reinterpret_cast<T*>(start_ + at) : nullptr;
  }
  size_t used() const { return used_; }

 private:
  char* start_;
  size_t used_ = 0;
};

}  // namespace weft::cpu
