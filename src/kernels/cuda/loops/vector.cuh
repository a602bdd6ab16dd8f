// Vector: 16 bytes of elements that stay packed in registers and are widened where they are used; or a single element.
//
//   auto x = Vector<BF16, 8>::Load(address);   // two elements per register
//   float values[8]; ... values[v] = 2 * x[v];
//   Vector<BF16, 8>::Of(values).Store(address);
#pragma once
#include "weft/kernels/cuda/loops/convert.cuh"

namespace weft::cuda {

template <class T, int V = kPack<T>>
struct Vector {
  using C = Compute<T>;
  static constexpr bool kWords = sizeof(T) <= 4 && V == kPack<T>;
  static_assert(kWords || V == 1);
  struct alignas(16) Words {
    uint32_t of[4] = {};
  };
  std::conditional_t<kWords, Words, T> bits{};

  __device__ static __forceinline__ Vector Load(const T* at) { return {*reinterpret_cast<const decltype(bits)*>(at)}; }
  __device__ __forceinline__ void Store(T* at) const { *reinterpret_cast<decltype(bits)*>(at) = bits; }

  __device__ __forceinline__ C operator[](int v) const {
    if constexpr (!kWords) {
      return Widen(bits);
    } else if constexpr (std::is_same_v<T, float>) {
      return __uint_as_float(bits.of[v]);
    } else {
      uint32_t word = bits.of[v / 2];
      if constexpr (std::is_same_v<T, BF16>) return __uint_as_float(v % 2 ? word & 0xffff0000u : word << 16);
      return __half2float(__ushort_as_half(uint16_t(v % 2 ? word >> 16 : word)));
    }
  }

  __device__ static __forceinline__ Vector Of(const C (&values)[V]) {
    Vector to;
    if constexpr (!kWords) {
      to.bits = Narrow<T>(values[0]);
    } else {
#pragma unroll
      for (int w = 0; w < 4; w++) to.bits.of[w] = Word(values + w * V / 4);
    }
    return to;
  }

  // Returns the vector of lane ^ mask. All lanes of the warp must call it.
  __device__ __forceinline__ Vector FromLane(int mask) const {
    static_assert(kWords);
    Vector from;
#pragma unroll
    for (int w = 0; w < 4; w++) from.bits.of[w] = __shfl_xor_sync(~0u, bits.of[w], mask);
    return from;
  }

  // Hides the elements from the compiler, so that it keeps them packed across a barrier instead of widened.
  __device__ __forceinline__ void KeepPacked() {
    if constexpr (kWords && sizeof(T) == 2) {
#pragma unroll
      for (int w = 0; w < 4; w++) asm volatile("" : "+r"(bits.of[w]));
    }
  }

 private:
  // One f32, or two 16-bit floats from one instruction.
  __device__ static __forceinline__ uint32_t Word(const C* values) {
    uint32_t word;
    if constexpr (std::is_same_v<T, float>)
      word = __float_as_uint(values[0]);
    else if constexpr (std::is_same_v<T, BF16>)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(values[1]), "f"(values[0]));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(values[1]), "f"(values[0]));
    return word;
  }
};

}  // namespace weft::cuda
