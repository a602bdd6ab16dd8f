// The random numbers of core/base/rng.h in device code, with the same bits.
#pragma once
#include <cstdint>

namespace weft::cuda {

struct PhiloxBits {
  uint32_t lane[4];
};

// From C++ the compiler would also add the product of the upper halves, which is zero. That is one of three
// instructions per product.
__device__ __forceinline__ uint64_t WideProduct(uint32_t a, uint32_t b) {
  uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}

__device__ __forceinline__ PhiloxBits Philox(uint64_t key, uint64_t step, uint64_t block) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  uint32_t c0 = uint32_t(block), c1 = uint32_t(block >> 32), c2 = uint32_t(step), c3 = uint32_t(step >> 32);
#pragma unroll
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = WideProduct(0xD2511F53u, c0), p1 = WideProduct(0xCD9E8D57u, c2);
    c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
    c1 = uint32_t(p1);
    c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c3 = uint32_t(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Returns a number in (0, 1), exactly (bits + 1/2) / 2^32.
__device__ __forceinline__ double UniformFromBits(uint32_t bits) {
  return __dmul_rn(__dadd_rn(double(bits), 0.5), 0x1p-32);
}

}  // namespace weft::cuda
