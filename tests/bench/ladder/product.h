// Matrix products by cuBLASLt.
//   Product product(cublas, {.m = 4096, .n = 8192, .k = 4096});   product.Run(a, b, c, workspace, stream);
#pragma once
#include <cublasLt.h>

#include "probe.h"

constexpr size_t kWorkspace = 64 << 20;

inline void Check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cublasLtGetStatusString(status));
}

// C[m, n] = op_a(A)[m, k] op_b(B)[k, n], column-major.
struct ProductShape {
  int m, n, k;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  cudaDataType_t type_of_c = CUDA_R_16BF;
  int sm_target = 0;  // 0: all multiprocessors
};

// A product of bf16 operands with f32 sums, by the first algorithm of cuBLASLt's heuristic.
class Product {
 public:
  Product(cublasLtHandle_t handle, const ProductShape& shape) : handle_(handle) {
    const auto [m, n, k, op_a, op_b, type_of_c, sm_target] = shape;
    const bool plain_a = op_a == CUBLAS_OP_N, plain_b = op_b == CUBLAS_OP_N;
    Check(cublasLtMatmulDescCreate(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
    Set(CUBLASLT_MATMUL_DESC_TRANSA, op_a);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, op_b);
    if (sm_target) Set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t(sm_target));
    const int rows_a = plain_a ? m : k, rows_b = plain_b ? k : n;
    Check(cublasLtMatrixLayoutCreate(&a_, CUDA_R_16BF, rows_a, plain_a ? k : m, rows_a), "lay out A");
    Check(cublasLtMatrixLayoutCreate(&b_, CUDA_R_16BF, rows_b, plain_b ? n : k, rows_b), "lay out B");
    Check(cublasLtMatrixLayoutCreate(&c_, type_of_c, m, n, m), "lay out C");
    Choose();
  }
  void Run(const void* a, const void* b, void* c, void* workspace, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    Check(cublasLtMatmul(handle_, desc_, &one, a, a_, b, b_, &zero, c, c_, c, c_, &choice_.algo, workspace, kWorkspace,
                         stream),
          "multiply");
  }

 private:
  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, T value) {
    Check(cublasLtMatmulDescSetAttribute(desc_, attribute, &value, sizeof value), "set a product's attribute");
  }
  void Choose() {
    cublasLtMatmulPreference_t preference;
    int found = 0;
    Check(cublasLtMatmulPreferenceCreate(&preference), "make a preference");
    Check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                               sizeof kWorkspace),
          "allow a workspace");
    Check(cublasLtMatmulAlgoGetHeuristic(handle_, desc_, a_, b_, c_, c_, preference, 1, &choice_, &found),
          "choose an algorithm");
    Check(cublasLtMatmulPreferenceDestroy(preference), "drop a preference");
  }
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t desc_;
  cublasLtMatrixLayout_t a_, b_, c_;
  cublasLtMatmulHeuristicResult_t choice_;
};
