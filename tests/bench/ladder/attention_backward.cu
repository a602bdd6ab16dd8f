// Probe: the skeleton of attention's backward pass on Hopper, bf16, head width 128. It computes, of the five products,
//   S^T = K Q^T, dP^T = V dO^T, dV += P^T dO   and, with kWithDk, dK += dS^T Q;
// dQ is left out. dS is formed in f32 and summed over queries, so that the result of each product is checked.
// A block owns 128 keys. One warpgroup copies, and two compute 64 keys each against tiles of kQueries queries. The
// products are transposed, so P and dS are already in the registers where they are the next product's A operand.
// kDeferred leaves a tile's last products in flight during the next tile's S^T. Its wait must not depend on a
// condition: if a path without the wait exists, ptxas finds too few registers and runs all products one by one (C7512).
// Legend: H planes = batch x heads, S rows, D = 128. LSE is in log2 units; LSE and delta have `padded` rows per plane.
#include <cstdio>

#include "hopper.h"
#include "probe.h"

using bf16 = __nv_bfloat16;
constexpr int kKeys = 128, kWidth = 128, kThreads = 384, kHalf = 64;

struct Problem {
  int planes, rows, padded;
  float scale_log2;          // log2(e) / sqrt(D)
  const float *lse, *delta;  // [H, padded]
  bf16 *grad_v, *grad_k;     // [H, S, D]
  float* ds_sum;             // [H, S]
};

template <int kQueries, int kStages>
struct Tiles {
  alignas(1024) bf16 k[2][kKeys][kHalf];
  alignas(1024) bf16 v[2][kKeys][kHalf];
  alignas(1024) bf16 q[kStages][2][kQueries][kHalf];
  alignas(1024) bf16 grad_o[kStages][2][kQueries][kHalf];
  alignas(16) float lse[kStages][kQueries];
  alignas(16) float delta[kStages][kQueries];
  uint64_t keys_full, q_full[kStages], o_full[kStages], empty[kStages];
};

struct Maps {
  CUtensorMap q, k, v, grad_o;
};

template <typename T>
__device__ void InitBarriers(T& t, int stages) {
  hopper::InitBarrier(&t.keys_full, 1);
  for (int i = 0; i < stages; ++i) {
    hopper::InitBarrier(&t.q_full[i], 1);
    hopper::InitBarrier(&t.o_full[i], 1);
    hopper::InitBarrier(&t.empty[i], 8);  // one arrival per consumer warp, because each warp waits for its own products
  }
  hopper::FenceBarrierInit();
}

// Copies both halves of the rows [row, row + n) of a plane.
template <typename Tile>
__device__ void CopyHalves(Tile& tile, const CUtensorMap* map, uint64_t* barrier, int row, int plane) {
  hopper::CopyTile(tile[0], map, barrier, 0, row, plane);
  hopper::CopyTile(tile[1], map, barrier, kHalf, row, plane);
}

template <int kQueries, int kStages>
__device__ void Produce(Tiles<kQueries, kStages>& t, const Maps& maps, const Problem& p, int first, int blocks) {
  const int key = blockIdx.x * kKeys, plane = blockIdx.y;
  const uint32_t tile_bytes = kQueries * kWidth * 2, row_bytes = kQueries * 4;
  hopper::ArriveExpect(&t.keys_full, 2 * kKeys * kWidth * 2);
  CopyHalves(t.k, &maps.k, &t.keys_full, key, plane);
  CopyHalves(t.v, &maps.v, &t.keys_full, key, plane);
  for (int i = 0; i < blocks; ++i) {
    const int stage = i % kStages, query = (first + i) * kQueries;
    hopper::Wait(&t.empty[stage], (i / kStages & 1) ^ 1);
    hopper::ArriveExpect(&t.q_full[stage], tile_bytes + row_bytes);
    CopyHalves(t.q[stage], &maps.q, &t.q_full[stage], query, plane);
    hopper::CopyBytes(t.lse[stage], p.lse + size_t(plane) * p.padded + query, &t.q_full[stage], row_bytes);
    hopper::ArriveExpect(&t.o_full[stage], tile_bytes + row_bytes);
    CopyHalves(t.grad_o[stage], &maps.grad_o, &t.o_full[stage], query, plane);
    hopper::CopyBytes(t.delta[stage], p.delta + size_t(plane) * p.padded + query, &t.o_full[stage], row_bytes);
  }
}

// d[64 keys, kQueries] = A[64, 128] B[kQueries, 128]^T, both K-major, in eight steps of 16 columns, four per half.
template <int kQueries>
__device__ inline void ScoreProduct(float (&d)[kQueries / 2], uint64_t a, uint64_t b) {
#pragma unroll
  for (int step = 0; step < 8; ++step) {
    const uint64_t inside = (step & 3) * (32 >> 4), half = step >> 2;
    hopper::ProductSS<kQueries>(d, a + inside + half * (kKeys * 128 >> 4), b + inside + half * (kQueries * 128 >> 4),
                                step);
  }
  hopper::Commit();
}

// acc[64 keys, 128] += A[64, kQueries] B[kQueries, 128], with A in the register layout of a score product's
// accumulator.
template <int kQueries>
__device__ inline void GradientProduct(float (&acc)[64], const uint32_t (&a)[kQueries / 16][4], uint64_t b) {
  hopper::Fence();
#pragma unroll
  for (int step = 0; step < kQueries / 16; ++step) hopper::ProductRS(acc, a[step], b + step * (16 * 128 >> 4));
  hopper::Commit();
}

// The f32 pairs of an accumulator are, in this order, the bf16 fragments of an A operand.
template <int kQueries>
__device__ inline void ToOperand(uint32_t (&a)[kQueries / 16][4], const float (&s)[kQueries / 2]) {
#pragma unroll
  for (int i = 0; i < kQueries / 4; ++i) a[i / 4][i % 4] = hopper::Pack(s[2 * i], s[2 * i + 1]);
}

// s holds S^T: register 4 j + 2 h + e is key row + 8 h, query 8 j + column + e. Replaces it by P.
template <int kQueries>
__device__ inline void Probabilities(float (&s)[kQueries / 2], const float* lse, int column, float scale_log2) {
#pragma unroll
  for (int j = 0; j < kQueries / 8; ++j) {
    const float2 l = *reinterpret_cast<const float2*>(lse + 8 * j + column);
#pragma unroll
    for (int r = 0; r < 4; ++r) s[4 * j + r] = hopper::Exp2(s[4 * j + r] * scale_log2 - (r & 1 ? l.y : l.x));
  }
}

// Hides the keys after each query. `ahead` is this thread's first key minus its first query.
template <int kQueries>
__device__ inline void MaskCausal(float (&s)[kQueries / 2], int ahead) {
#pragma unroll
  for (int i = 0; i < kQueries / 2; ++i)
    if (ahead + 8 * (i >> 1 & 1) > 8 * (i / 4) + (i & 1)) s[i] = -INFINITY;
}

// s holds P and dp holds dP^T. Replaces s by dS without its scale.
template <int kQueries>
__device__ inline void ScoreGradients(float (&s)[kQueries / 2], const float (&dp)[kQueries / 2], const float* delta,
                                      int column, float (&sum)[2]) {
#pragma unroll
  for (int j = 0; j < kQueries / 8; ++j) {
    const float2 d = *reinterpret_cast<const float2*>(delta + 8 * j + column);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      s[4 * j + r] *= dp[4 * j + r] - (r & 1 ? d.y : d.x);
      sum[r >> 1] += s[4 * j + r];
    }
  }
}

__device__ inline void StoreRows(bf16* out, const float (&acc)[64], int rows, int row, int column) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int r = row + 8 * (i & 1);
    if (r < rows)
      *reinterpret_cast<uint32_t*>(out + size_t(r) * kWidth + 8 * (i / 2) + column) =
          hopper::Pack(acc[2 * i], acc[2 * i + 1]);
  }
}

__device__ inline void StoreSums(float* out, float (&sum)[2], int rows, int row) {
  for (int h = 0; h < 2; ++h) {
    for (int lane = 1; lane < 4; lane *= 2) sum[h] += __shfl_xor_sync(~0u, sum[h], lane);
    if (threadIdx.x % 4 == 0 && row + 8 * h < rows) out[row + 8 * h] = sum[h];
  }
}

template <int kQueries, int kStages, bool kCausal, bool kWithDk, bool kDeferred>
__device__ void Consume(Tiles<kQueries, kStages>& t, const Problem& p, int group, int first, int blocks) {
  const int lane = threadIdx.x % 32, column = 2 * (lane % 4);
  const int row = blockIdx.x * kKeys + group * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;  // this thread's first key
  const uint64_t k = hopper::Descriptor(&t.k[0][group * 64], 16, 1024),
                 v = hopper::Descriptor(&t.v[0][group * 64], 16, 1024);
  float grad_v[64] = {}, grad_k[64] = {}, sum[2] = {};
  hopper::Wait(&t.keys_full, 0);
  for (int i = 0; i < blocks; ++i) {
    const int stage = i % kStages, parity = i / kStages & 1, query = (first + i) * kQueries;
    float s[kQueries / 2], dp[kQueries / 2];
    uint32_t a[kQueries / 16][4];
    hopper::Wait(&t.q_full[stage], parity);
    hopper::Fence();
    ScoreProduct<kQueries>(s, k, hopper::Descriptor(t.q[stage], 16, 1024));  // S^T [64, kQueries]
    if constexpr (kDeferred) {
      hopper::WaitProducts<1>();  // the last tile's gradients are done during this S^T, so its stage and `a` are free
      if (i > 0 && lane == 0) hopper::Arrive(&t.empty[(i - 1) % kStages]);
    }
    hopper::Wait(&t.o_full[stage], parity);
    ScoreProduct<kQueries>(dp, v, hopper::Descriptor(t.grad_o[stage], 16, 1024));  // dP^T [64, kQueries]
    hopper::WaitProducts<1>();                                                     // S^T is done
    hopper::Pin(s);
    if (kCausal && query < int(blockIdx.x + 1) * kKeys - 1) MaskCausal<kQueries>(s, row - query - column);
    Probabilities<kQueries>(s, t.lse[stage], column, p.scale_log2);
    ToOperand<kQueries>(a, s);
    GradientProduct<kQueries>(grad_v, a, hopper::Descriptor(t.grad_o[stage], kQueries * 128, 1024));  // [64, D]
    hopper::WaitProducts<1>();                                                                        // dP^T is done
    hopper::Pin(dp);
    ScoreGradients<kQueries>(s, dp, t.delta[stage], column, sum);
    if constexpr (kWithDk) {
      hopper::WaitProducts<0>();  // frees P's registers for dS: both together need 16 registers too many
      ToOperand<kQueries>(a, s);
      GradientProduct<kQueries>(grad_k, a, hopper::Descriptor(t.q[stage], kQueries * 128, 1024));  // [64, D]
    }
    if constexpr (!kDeferred) {
      hopper::WaitProducts<0>();
      hopper::Pin(grad_v);
      hopper::Pin(grad_k);
      if (lane == 0) hopper::Arrive(&t.empty[stage]);
    }
  }
  hopper::WaitProducts<0>();
  hopper::Pin(grad_v);
  const size_t plane = size_t(blockIdx.y) * p.rows;
  StoreRows(p.grad_v + plane * kWidth, grad_v, p.rows, row, column);
  StoreSums(p.ds_sum + plane, sum, p.rows, row);
  if constexpr (kWithDk) {
    hopper::Pin(grad_k);
    StoreRows(p.grad_k + plane * kWidth, grad_k, p.rows, row, column);
  }
}

template <int kQueries, int kStages, bool kCausal, bool kWithDk, bool kDeferred>
__global__ void __launch_bounds__(kThreads, 1) Backward(const __grid_constant__ Maps maps, const Problem p) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& t = *reinterpret_cast<Tiles<kQueries, kStages>*>(memory);
  const int last = (p.rows + kQueries - 1) / kQueries, first = kCausal ? blockIdx.x * kKeys / kQueries : 0;
  if (threadIdx.x == 0) InitBarriers(t, kStages);
  __syncthreads();
  if (threadIdx.x < 128) {
    hopper::LowerRegisters<24>();
    if (threadIdx.x == 0) Produce(t, maps, p, first, last - first);
  } else {
    hopper::RaiseRegisters<240>();
    Consume<kQueries, kStages, kCausal, kWithDk, kDeferred>(t, p, threadIdx.x / 128 - 1, first, last - first);
  }
}

// Computes the definition with one warp per key, in f32: lane l holds columns 4 l to 4 l + 3. At large sizes only every
// `every`-th key is computed.
__global__ void Reference(const bf16* q, const bf16* k, const bf16* v, const bf16* grad_o, Problem p, bool causal,
                          int every, float* grad_v, float* grad_k, float* ds_sum) {
  const int key = blockIdx.x * every, lane = threadIdx.x;
  const size_t plane = size_t(blockIdx.y) * p.rows;
  const auto load = [&](const bf16* x, size_t row, int i) {
    return __bfloat162float(x[(plane + row) * kWidth + 4 * lane + i]);
  };
  float gv[4] = {}, gk[4] = {}, total = 0;
  for (int query = causal ? key : 0; query < p.rows; ++query) {
    float s = 0, dp = 0;
    for (int i = 0; i < 4; ++i)
      s += load(k, key, i) * load(q, query, i), dp += load(v, key, i) * load(grad_o, query, i);
    for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o), dp += __shfl_xor_sync(~0u, dp, o);
    const float prob = exp2f(s * p.scale_log2 - p.lse[size_t(blockIdx.y) * p.padded + query]);
    const float ds = prob * (dp - p.delta[size_t(blockIdx.y) * p.padded + query]);
    for (int i = 0; i < 4; ++i) gv[i] += prob * load(grad_o, query, i), gk[i] += ds * load(q, query, i);
    total += ds;
  }
  const size_t out = size_t(blockIdx.y) * gridDim.x + blockIdx.x;
  for (int i = 0; i < 4; ++i) grad_v[out * kWidth + 4 * lane + i] = gv[i], grad_k[out * kWidth + 4 * lane + i] = gk[i];
  if (lane == 0) ds_sum[out] = total;
}

// Any LSE and delta will do, because the products are exact functions of them. Rows beyond S get LSE inf, so P is 0
// there.
__global__ void PadRows(float* lse, float* delta, int rows, int padded) {
  for (int i = rows + threadIdx.x; i < padded; i += blockDim.x)
    lse[size_t(blockIdx.x) * padded + i] = INFINITY, delta[size_t(blockIdx.x) * padded + i] = 0;
}

struct Operands {
  Operands(int planes, int rows)
      : planes(planes),
        rows(rows),
        padded((rows + 131) / 4 * 4),
        q(Count(), 11),
        k(Count(), 12),
        v(Count(), 13),
        grad_o(Count(), 14),
        grad_v(Count()),
        grad_k(Count()),
        lse(size_t(planes) * padded, 15, std::log2(float(rows)), 1),
        delta(size_t(planes) * padded, 16),
        ds_sum(size_t(planes) * rows) {
    PadRows<<<planes, 128>>>(lse.data(), delta.data(), rows, padded);
    Check(cudaDeviceSynchronize(), "pad LSE and delta");
  }
  size_t Count() const { return size_t(planes) * rows * kWidth; }
  Problem problem() const {
    const float scale = 1.44269504f / std::sqrt(float(kWidth));
    return {planes, rows, padded, scale, lse.data(), delta.data(), grad_v.data(), grad_k.data(), ds_sum.data()};
  }
  int planes, rows, padded;
  Buffer<bf16> q, k, v, grad_o, grad_v, grad_k;
  Buffer<float> lse, delta, ds_sum;
};

// Describes [planes, rows, 128] bf16 in boxes of `box_rows` x 64 columns. Rows beyond the plane read as zero.
static CUtensorMap Boxes(const Buffer<bf16>& x, int planes, int rows, int box_rows) {
  return hopper::TensorMap<3>(x.data(), {kWidth, cuuint64_t(rows), cuuint64_t(planes)},
                              {kHalf, cuuint32_t(box_rows), 1});
}

// Returns every `every`-th row of [planes, rows, width] on the host.
static std::vector<float> Rows(const std::vector<float>& x, int planes, int rows, int width, int every) {
  std::vector<float> out;
  for (int plane = 0; plane < planes; ++plane)
    for (int row = 0; row < rows; row += every) {
      const auto begin = x.begin() + (size_t(plane) * rows + row) * width;
      out.insert(out.end(), begin, begin + width);
    }
  return out;
}

static std::string Errors(const Operands& x, bool causal, bool with_dk, int every) {
  const int sampled = (x.rows + every - 1) / every;
  Buffer<float> grad_v(size_t(x.planes) * sampled * kWidth), grad_k(grad_v.size()), sums(size_t(x.planes) * sampled);
  Reference<<<dim3(sampled, x.planes), 32>>>(x.q.data(), x.k.data(), x.v.data(), x.grad_o.data(), x.problem(), causal,
                                             every, grad_v.data(), grad_k.data(), sums.data());
  Check(cudaDeviceSynchronize(), "run the reference");
  const auto error = [&](const auto& out, const Buffer<float>& ref, int width) {
    return RelativeError(Rows(out.Host(), x.planes, x.rows, width, every), ref.Host());
  };
  char text[160];
  std::snprintf(text, sizeof text, "\"dv_error\":%.2e,\"ds_sum_error\":%.2e,\"dk_error\":%.2e",
                error(x.grad_v, grad_v, kWidth), error(x.ds_sum, sums, 1),
                with_dk ? error(x.grad_k, grad_k, kWidth) : 0.0);
  return text;
}

template <int kQueries, int kStages, bool kCausal, bool kWithDk, bool kDeferred>
static void Measure(int planes, int rows, int every, bool timed) {
  Operands x(planes, rows);
  const Maps maps{Boxes(x.q, planes, rows, kQueries), Boxes(x.k, planes, rows, kKeys), Boxes(x.v, planes, rows, kKeys),
                  Boxes(x.grad_o, planes, rows, kQueries)};
  const auto kernel = Backward<kQueries, kStages, kCausal, kWithDk, kDeferred>;
  const int bytes = sizeof(Tiles<kQueries, kStages>);
  Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "raise the shared memory limit");
  cudaFuncAttributes attributes;
  Check(cudaFuncGetAttributes(&attributes, kernel), "read the kernel's attributes");
  const auto launch = [&] {
    kernel<<<dim3((rows + kKeys - 1) / kKeys, planes), kThreads, bytes>>>(maps, x.problem());
    Check(cudaGetLastError(), "launch the backward skeleton");
  };
  launch();
  Check(cudaDeviceSynchronize(), "run the backward skeleton");
  const std::string errors = Errors(x, kCausal, kWithDk, every);
  const float ms = timed ? MedianMs(nullptr, 30, launch) : 0;
  const double flops = (kWithDk ? 8.0 : 6.0) * planes * rows * rows * kWidth / (kCausal ? 2 : 1);
  std::printf(
      "{\"probe\":\"attention_backward\",\"planes\":%d,\"S\":%d,\"queries\":%d,\"stages\":%d,\"causal\":%s,"
      "\"products\":%d,"
      "\"deferred\":%s,\"local_bytes\":%zu,%s,\"ms\":%.3f,\"tflops\":%.0f}\n",
      planes, rows, kQueries, kStages, kCausal ? "true" : "false", kWithDk ? 4 : 3, kDeferred ? "true" : "false",
      attributes.localSizeBytes, errors.c_str(), ms, timed ? flops / ms * 1e-9 : 0);
  std::fflush(stdout);
}

template <int kQueries, int kStages, bool kWithDk, bool kDeferred>
static void MeasureVariant() {
  Measure<kQueries, kStages, true, kWithDk, kDeferred>(2, 512, 1, false);
  Measure<kQueries, kStages, false, kWithDk, kDeferred>(2, 1000, 1, false);  // neither tile divides 1000
  Measure<kQueries, kStages, true, kWithDk, kDeferred>(64, 8192, 61, true);
  Measure<kQueries, kStages, false, kWithDk, kDeferred>(64, 8192, 61, true);
}

int main() try {
  std::printf("{\"probe\":\"versions\",%s}\n", DeviceLine().c_str());
  MeasureVariant<64, 3, false, true>();
  MeasureVariant<80, 3, false, true>();
  MeasureVariant<128, 2, false, false>();
  MeasureVariant<64, 3, true, true>();
  MeasureVariant<64, 3, true, false>();
} catch (const std::exception& e) {
  std::fprintf(stderr, "attention_backward: %s\n", e.what());
  return 1;
}
