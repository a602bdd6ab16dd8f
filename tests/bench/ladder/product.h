// Matrix products by cuBLASLt.
//   Product product(cublas, {.m = 4096, .n = 8192, .k = 4096});   product.Run(a, b, c, workspace, stream);
//   product.Choose(Fastest(BurstsMs(product, a, b, c, workspace, stream)));   // with .candidates = 8
#pragma once
#include <cublasLt.h>

#include "probe.h"
#include "weft/kernels/cuda/product/algorithm_search.h"

using weft::cuda::Algorithm, weft::cuda::Problem;

constexpr size_t kWorkspace = 64 << 20;
constexpr int kMostCandidates = 16;

inline void Check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cublasLtGetStatusString(status));
}

// C[m, n] = op_a(A)[m, k] op_b(B)[k, n], column-major.
struct ProductShape {
  int m, n, k;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  cudaDataType_t type_of_c = CUDA_R_16BF;
  int sm_target = 0;   // 0: all multiprocessors
  int candidates = 1;  // how many algorithms the heuristic may name, at most 16; with several, partial sums stay in f32
  cudaDataType_t type_of_ab = CUDA_R_16BF;
  // For fp8 operands: whether their sums are less precise, and the scales of A and B in device memory.
  bool fast_accumulation = false;
  const float *scale_a = nullptr, *scale_b = nullptr;
  // What happens to C before it is written. The bias has m elements of C's type. The auxiliary matrix lies as C does.
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* auxiliary = nullptr;
};

// A product with f32 sums, by the first algorithm of cuBLASLt's heuristic until another candidate is chosen.
class Product {
 public:
  Product(cublasLtHandle_t handle, const ProductShape& shape) : handle_(handle) {
    const int m = shape.m, n = shape.n, k = shape.k;
    const bool plain_a = shape.op_a == CUBLAS_OP_N, plain_b = shape.op_b == CUBLAS_OP_N;
    Check(cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
    Set(CUBLASLT_MATMUL_DESC_TRANSA, shape.op_a);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, shape.op_b);
    if (shape.sm_target) Set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t(shape.sm_target));
    if (shape.fast_accumulation) Set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t(1));
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, shape.epilogue);
    if (shape.bias) Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, shape.bias);
    if (shape.auxiliary) {
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, shape.auxiliary);
      Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(m));
    }
    if (shape.scale_a) Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, shape.scale_a);
    if (shape.scale_b) Set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, shape.scale_b);
    const int rows_a = plain_a ? m : k, rows_b = plain_b ? k : n;
    Check(cublasLtMatrixLayoutCreate(&a_, shape.type_of_ab, rows_a, plain_a ? k : m, rows_a), "lay out A");
    Check(cublasLtMatrixLayoutCreate(&b_, shape.type_of_ab, rows_b, plain_b ? n : k, rows_b), "lay out B");
    Check(cublasLtMatrixLayoutCreate(&c_, shape.type_of_c, m, n, m), "lay out C");
    Ask(shape.candidates);
  }
  size_t candidates() const { return algorithms_.size(); }
  const std::vector<Algorithm>& algorithms() const { return algorithms_; }
  Problem problem() const { return {handle_, desc_, a_, b_, c_, kWorkspace}; }
  // Adds a candidate that the heuristic does not name.
  void Add(const Algorithm& algorithm) { algorithms_.push_back(algorithm); }
  size_t choice() const { return choice_; }
  void Choose(size_t candidate) { choice_ = candidate; }
  void Run(const void* a, const void* b, void* c, void* workspace, cudaStream_t stream) const {
    Check(TryRun(a, b, c, workspace, stream), "multiply");
  }
  cublasStatus_t TryRun(const void* a, const void* b, void* c, void* workspace, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    return cublasLtMatmul(handle_, desc_, &one, a, a_, b, b_, &zero, c, c_, c, c_, &algorithms_[choice_].words,
                          workspace, kWorkspace, stream);
  }

 private:
  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, T value) {
    Check(cublasLtMatmulDescSetAttribute(desc_, attribute, &value, sizeof value), "set a product's attribute");
  }
  void Ask(int candidates) {
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t results[kMostCandidates];
    int found = 0;
    Check(cublasLtMatmulPreferenceCreate(&preference), "make a preference");
    Check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                               sizeof kWorkspace),
          "allow a workspace");
    const uint32_t f32_partial_sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (candidates > 1)
      Check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                 &f32_partial_sums, sizeof f32_partial_sums),
            "require partial sums in f32");
    Check(cublasLtMatmulAlgoGetHeuristic(handle_, desc_, a_, b_, c_, c_, preference,
                                         std::min(candidates, kMostCandidates), results, &found),
          "choose an algorithm");
    Check(cublasLtMatmulPreferenceDestroy(preference), "drop a preference");
    for (int i = 0; i < found; ++i)
      if (results[i].state == CUBLAS_STATUS_SUCCESS) algorithms_.push_back({results[i].algo});
    if (algorithms_.empty()) throw std::runtime_error("cuBLASLt names no algorithm for a product");
  }
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t desc_;
  cublasLtMatrixLayout_t a_, b_, c_;
  std::vector<Algorithm> algorithms_;
  size_t choice_ = 0;
};

// Returns the ms per launch of every candidate in a burst: a graph of as many launches as take 0.2 ms, at most 20, with
// a pause after each replay. Weft chooses its algorithms by such bursts. The product's choice is the last candidate
// afterwards.
inline std::vector<float> BurstsMs(Product& product, const void* a, const void* b, void* c, void* workspace,
                                   cudaStream_t stream) {
  std::vector<float> ms;
  for (size_t i = 0; i < product.candidates(); ++i) {
    product.Choose(i);
    const auto launch = [&] { product.Run(a, b, c, workspace, stream); };
    const int launches = std::clamp(int(0.2f / MedianMs(stream, 1, launch)), 1, 20);
    const cudaGraphExec_t graph = Capture(stream, [&] {
      for (int l = 0; l < launches; ++l) launch();
    });
    const auto replay = [&] { Check(cudaGraphLaunch(graph, stream), "replay a burst"); };
    ms.push_back(MedianMs(stream, 5, replay) / float(launches));
    Check(cudaGraphExecDestroy(graph), "destroy a graph");
  }
  return ms;
}

// Returns the index of the least time.
inline size_t Fastest(const std::vector<float>& ms) {
  return size_t(std::min_element(ms.begin(), ms.end()) - ms.begin());
}

// ---- checking ----

// The value of one element of a product in f64, by one block of threads.
template <typename T>
__global__ void Reference(ProductShape s, const T* a, const T* b, int row, int column, double* out) {
  double sum = 0;
  for (int i = int(threadIdx.x); i < s.k; i += int(blockDim.x)) {
    const size_t at_a = s.op_a == CUBLAS_OP_N ? row + size_t(i) * s.m : i + size_t(row) * s.k;
    const size_t at_b = s.op_b == CUBLAS_OP_N ? i + size_t(column) * s.k : column + size_t(i) * s.n;
    sum += double(float(a[at_a])) * double(float(b[at_b]));
  }
  atomicAdd(out, sum);
}

struct Errors {
  float excess = 0;  // the largest error divided by its tolerance; above 1 is wrong
  double rms = 0;    // the error's root mean square divided by that of the values
};

// Compares 61 elements of C with their values in f64. `deviation` is that of a term of the sum, and `sum_error` the
// error of a sum that is allowed, as a part of the deviation of the whole sum. C itself is rounded to bf16.
template <typename T>
Errors Compare(const ProductShape& s, const T* a, const T* b, const bf16* c, double scale, double deviation,
               double sum_error) {
  Errors errors;
  double squares = 0, wrong = 0;
  Buffer<double> value(1);
  for (uint32_t i = 0; i < 61; ++i) {
    const int row = int(Mix(2 * i) % uint32_t(s.m)), column = int(Mix(2 * i + 1) % uint32_t(s.n));
    Check(cudaMemset(value.data(), 0, sizeof(double)), "clear a sum");
    Reference<<<1, 256>>>(s, a, b, row, column, value.data());
    Check(cudaDeviceSynchronize(), "compute a reference");
    double expected = 0;
    Check(cudaMemcpy(&expected, value.data(), sizeof expected, cudaMemcpyDeviceToHost), "fetch a reference");
    expected *= scale;
    const double got = Fetch(c + row + size_t(column) * s.m);
    const double tolerance = std::abs(expected) / 256 + sum_error * deviation * std::sqrt(double(s.k));
    errors.excess = std::max(errors.excess, Excess(got, expected, tolerance));
    squares += expected * expected, wrong += (got - expected) * (got - expected);
  }
  errors.rms = std::isfinite(wrong) ? std::sqrt(wrong / squares) : 1e9;
  return errors;
}
