// The address of shared memory as instructions in PTX take it.
#pragma once
#include <cstdint>

namespace weft::cuda {

__device__ __forceinline__ uint32_t SharedAddress(const void* data) { return uint32_t(__cvta_generic_to_shared(data)); }

}  // namespace weft::cuda
