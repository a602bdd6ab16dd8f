// A warp's share of the products of flash attention on Hopper's tensor cores, by wgmma: four warps, a warpgroup,
// multiply 64 rows together. For 16-bit floats. Requires code for sm_90a.
//
// Fragments are those of mma.sync with 16 rows a warp (sdpa_mma.cuh), so what lies between products does not change.
// Right factors come from shared memory, and so do left ones but for probabilities. A product reads swizzled tiles by
// descriptors (PTX ISA, "Asynchronous warpgroup level matrix instructions"). Products take place while
// the warp does other work, until Wait.
#pragma once
#include "weft/kernels/cuda/attention/sdpa_mma.cuh"

namespace weft::cuda {

// Whether the build is only for sm_90a, so that every GPU that runs it has these products.
inline constexpr bool kWarpgroups = WEFT_CUDA_WARPGROUPS;

// A descriptor of a tile in pieces of 8 rows of 128 bytes, with the 128-byte swizzle (1 << 62). `panel` is the bytes
// from one 64 columns to the next, which count only if the columns are those of the product.
__device__ __forceinline__ uint64_t TileDescriptor(const void* tile, uint32_t panel) {
  constexpr uint64_t kPiece = 8 * 128;
  return uint64_t((SharedAddress(tile) & 0x3ffff) >> 4) | uint64_t(panel >> 4) << 16 | kPiece >> 4 << 32 |
         uint64_t(1) << 62;
}
// A step along a tile adds to its descriptor.
__device__ constexpr uint64_t DescriptorStep(uint32_t bytes) { return bytes >> 4; }

// The sums c as operands that an instruction replaces ("=") or adds to ("+").
#define WEFT_SUMS4(how, n) how "f"(c[0][n][0]), how "f"(c[0][n][1]), how "f"(c[0][n][2]), how "f"(c[0][n][3])
#define WEFT_SUMS16(how, n) WEFT_SUMS4(how, n), WEFT_SUMS4(how, n + 1), WEFT_SUMS4(how, n + 2), WEFT_SUMS4(how, n + 3)
#define WEFT_SUMS32(how) WEFT_SUMS16(how, 0), WEFT_SUMS16(how, 4)
#define WEFT_SUMS64(how) WEFT_SUMS32(how), WEFT_SUMS16(how, 8), WEFT_SUMS16(how, 12)
#define WEFT_NAMES16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define WEFT_NAMES32 WEFT_NAMES16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WEFT_NAMES64                                                                                                  \
  WEFT_NAMES32                                                                                                        \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59," \
  "%60,%61,%62,%63"
// `adds` is "1" or "0". `rest` names the operands after the sums.
#define WEFT_WGMMA(columns, type, adds, names, rest, sums, ...)                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns \
               "k16.f32." type "." type " {" names "}, " rest ";\n}\n"                                     \
               : WEFT_UNPACK sums                                                                          \
               : __VA_ARGS__)
#define WEFT_UNPACK(...) __VA_ARGS__
#define WEFT_WGMMA_OF_T(columns, adds, names, rest, sums, ...)         \
  if constexpr (std::is_same_v<T, BF16>)                               \
    WEFT_WGMMA(columns, "bf16", adds, names, rest, sums, __VA_ARGS__); \
  else                                                                 \
    WEFT_WGMMA(columns, "f16", adds, names, rest, sums, __VA_ARGS__)
#define WEFT_WGMMA_SHARED(columns, adds, names, rest, sums) \
  WEFT_WGMMA_OF_T(columns, adds, names, rest, sums, "l"(a), "l"(b), "n"(kAcrossA), "n"(kAcrossB))

// c [64, 8 N] = A [64, 16] B [16, 8 N], both from shared memory. kAcross: the operand's rows are terms of the sum.
template <HalfFloat T, bool kAcrossA, bool kAcrossB, int N>
__device__ __forceinline__ void BeginProduct(float (&c)[1][N][4], uint64_t a, uint64_t b) {
  static_assert(N == 4 || N == 8 || N == 16);
  if constexpr (N == 4) {
    WEFT_WGMMA_SHARED(32, "0", WEFT_NAMES16, "%16, %17, p, 1, 1, %18, %19", (WEFT_SUMS16("=", 0)));
  } else if constexpr (N == 8) {
    WEFT_WGMMA_SHARED(64, "0", WEFT_NAMES32, "%32, %33, p, 1, 1, %34, %35", (WEFT_SUMS32("=")));
  } else {
    WEFT_WGMMA_SHARED(128, "0", WEFT_NAMES64, "%64, %65, p, 1, 1, %66, %67", (WEFT_SUMS64("=")));
  }
}
// c += A B.
template <HalfFloat T, bool kAcrossA, bool kAcrossB, int N>
__device__ __forceinline__ void AddProduct(float (&c)[1][N][4], uint64_t a, uint64_t b) {
  static_assert(N == 4 || N == 8 || N == 16);
  if constexpr (N == 4) {
    WEFT_WGMMA_SHARED(32, "1", WEFT_NAMES16, "%16, %17, p, 1, 1, %18, %19", (WEFT_SUMS16("+", 0)));
  } else if constexpr (N == 8) {
    WEFT_WGMMA_SHARED(64, "1", WEFT_NAMES32, "%32, %33, p, 1, 1, %34, %35", (WEFT_SUMS32("+")));
  } else {
    WEFT_WGMMA_SHARED(128, "1", WEFT_NAMES64, "%64, %65, p, 1, 1, %66, %67", (WEFT_SUMS64("+")));
  }
}
// c [64, 8 N] += A [64, 16] B [16, 8 N], with A in registers. The rows of B's tile are terms of the sum.
template <HalfFloat T, int N>
__device__ __forceinline__ void AddProduct(float (&c)[1][N][4], const uint32_t (&a)[4], uint64_t b) {
  static_assert(N == 8 || N == 16);
  if constexpr (N == 8) {
    WEFT_WGMMA_OF_T(64, "1", WEFT_NAMES32, "{%32,%33,%34,%35}, %36, p, 1, 1, 1", (WEFT_SUMS32("+")), "r"(a[0]),
                    "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else {
    WEFT_WGMMA_OF_T(128, "1", WEFT_NAMES64, "{%64,%65,%66,%67}, %68, p, 1, 1, 1", (WEFT_SUMS64("+")), "r"(a[0]),
                    "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
}
#undef WEFT_SUMS4
#undef WEFT_SUMS16
#undef WEFT_SUMS32
#undef WEFT_SUMS64
#undef WEFT_NAMES16
#undef WEFT_NAMES32
#undef WEFT_NAMES64
#undef WEFT_WGMMA
#undef WEFT_WGMMA_OF_T
#undef WEFT_WGMMA_SHARED
#undef WEFT_UNPACK

// One of the four warps of a warpgroup, which take the same steps. Its interface is that of TensorCoreWarp.
template <HalfFloat T>
struct WarpgroupWarp : TensorCoreWarp<T, 1> {
  using Base = TensorCoreWarp<T, 1>;
  using typename Base::Element;
  static constexpr bool kTogether = true;
  static constexpr size_t kTileAlignment = 1024;
  static constexpr int kRowBytes = 128, kTerms = 16, kPanel = 64;  // of a tile; columns in a panel
  template <int Rows, int Columns>
  using Tile = SharedTile<Element, Rows, Columns, SwizzledRows>;
  using Narrow = WarpgroupWarp;

  static __device__ __forceinline__ void Publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

  // Waits for all products but the last kPending. No value of their sums may be used before this.
  template <int kPending = 0, int... N>
  static __device__ __forceinline__ void Wait(float (&... c)[1][N][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
    (Pin(c), ...);
  }

  template <int K, int N, class X, class Y>
  __device__ __forceinline__ void MultiplyTransposed(const X& x, int x_row, const Y& y, float (&c)[1][N][4]) const {
    uint64_t a = TileDescriptor(x.data + FirstOfGroup(x_row) * kPanel, 16), b = TileDescriptor(y.data, 16);
    Begin();
#pragma unroll
    for (int k = 0; k < K; k += kTerms) {
      uint32_t inside = k % kPanel * sizeof(Element), panel = k / kPanel * kRowBytes;
      Product<false>(k, c, a + DescriptorStep(inside + panel * X::kRows),
                     b + DescriptorStep(inside + panel * Y::kRows));
    }
    End();
  }

  // `column` begins a panel.
  template <int N, int NC, class Y>
  __device__ __forceinline__ void Multiply(const float (&p)[1][N][4], const Y& y, int column,
                                           float (&c)[1][NC][4]) const {
    uint64_t b = TileDescriptor(y.data + column * Y::kRows, Y::kRows * kRowBytes);
    uint32_t a[N / 2][4];
#pragma unroll
    for (int k = 0; k < N / 2; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        a[k][i] = PackPair<T>(p[0][2 * k + i / 2][i % 2 * 2], p[0][2 * k + i / 2][i % 2 * 2 + 1]);
    Begin();
#pragma unroll
    for (int k = 0; k < N / 2; k++) AddProduct<T>(c, a[k], b + DescriptorStep(k * kTerms * kRowBytes));
    End();
  }

  // The warpgroup's columns of X are the panel of x_column.
  template <int K, int NC, class X, class Y>
  static __device__ __forceinline__ void MultiplyLeftTransposed(const X& x, int x_column, const Y& y, int column,
                                                                float (&c)[1][NC][4]) {
    uint64_t a = TileDescriptor(x.data + FirstOfGroup(x_column) * X::kRows, X::kRows * kRowBytes);
    uint64_t b = TileDescriptor(y.data + column / kPanel * kPanel * Y::kRows + column % kPanel, Y::kRows * kRowBytes);
    Begin();
#pragma unroll
    for (int k = 0; k < K; k += kTerms) {
      uint64_t step = DescriptorStep(k * kRowBytes);
      Product<true>(k, c, a + step, b + step);
    }
    End();
  }

 private:
  // The terms from number k on of a sum.
  template <bool kAcross, int N>
  static __device__ __forceinline__ void Product(int k, float (&c)[1][N][4], uint64_t a, uint64_t b) {
    k == 0 ? BeginProduct<T, kAcross, kAcross>(c, a, b) : AddProduct<T, kAcross, kAcross>(c, a, b);
  }
  static __device__ __forceinline__ int FirstOfGroup(int row) { return row / 64 * 64; }
  // The compiler does not know when products read and write their registers.
  template <int N>
  static __device__ __forceinline__ void Pin(float (&c)[1][N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) asm volatile("" : "+f"(c[0][n][e])::"memory");
  }
  static __device__ __forceinline__ void Begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
  static __device__ __forceinline__ void End() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
};

}  // namespace weft::cuda
