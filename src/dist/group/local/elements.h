// Elements of the tensors that ranks of one process exchange.
#pragma once
#include <cstdint>
#include <cstring>

#include "weft/core/base/dtype.h"

namespace weft::local {

inline const char* At(const void* data, int64_t element, DType dtype) {
  return static_cast<const char*>(data) + element * int64_t(SizeOf(dtype));
}
inline char* At(void* data, int64_t element, DType dtype) {
  return static_cast<char*>(data) + element * int64_t(SizeOf(dtype));
}

inline void Copy(void* to, const void* from, int64_t count, DType dtype) {
  if (count && to != from) std::memcpy(to, from, size_t(count) * SizeOf(dtype));
}

}  // namespace weft::local
