// AlgorithmSearch: algorithms of cuBLASLt for a product in addition to those that its heuristic names, at most 8. In a
// step of Llama, where the power of the GPU is the limit, such algorithms make the products 1 to 1.6 % faster
// (tests/bench/ladder, `products more`).
//   AlgorithmSearch search(problem, named);
//   for (const Algorithm& one : search.Tiles()) ...
//   for (const Algorithm& one : search.Neighbours(fastest)) ...
#pragma once
#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "weft/kernels/cuda/product/tile_order.h"

namespace weft::cuda {

struct Algorithm {  // nvcc 13.0 fails on a vector of the library's own type, which has no name
  cublasLtMatmulAlgo_t words;
};

using Attribute = cublasLtMatmulAlgoConfigAttributes_t;

// Returns 0, which is the default of nearly all attributes, where the library does not know the attribute.
uint32_t GetAttribute(const Algorithm& algorithm, Attribute attribute);

// Returns the attributes in the order of the library's enumeration, joined by colons: id, tile, split-K, reduction,
// swizzle, custom option, stages, inner shape, cluster.
std::string KeyOf(const Algorithm& algorithm);

// A product as the library describes it. C has the layout of D.
struct Problem {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, d;
  size_t workspace_bytes;
};

// Whether the library takes the algorithm with the workspace.
bool Accepts(const Problem& problem, const Algorithm& algorithm);

// All algorithms that it returns are accepted by the library, fit in the workspace, are new, and keep the partial sums
// of a split sum in the compute type: in the output type they would lose bits.
class AlgorithmSearch {
 public:
  AlgorithmSearch(const Problem& problem, const std::vector<Algorithm>& named);

  // Returns the named algorithms with other tiles and clusters, the most promising tiles first.
  std::vector<Algorithm> Tiles();
  // Returns algorithms that differ from the given ones in one attribute.
  std::vector<Algorithm> Neighbours(const std::vector<Algorithm>& of);

 private:
  using Words = std::array<uint64_t, sizeof(cublasLtMatmulAlgo_t::data) / sizeof(uint64_t)>;
  static Words WordsOf(const Algorithm& algorithm);
  static TileOrder OrderOf(const Problem& problem);

  void ReadTypes();
  Algorithm Plain(const Algorithm& like) const;
  std::vector<uint32_t> TilesOf(const Algorithm& algorithm) const;
  std::vector<Algorithm> Kinds() const;
  int AddTile(const Algorithm& kind, uint32_t tile, std::vector<Algorithm>& found);
  void AddChanged(Algorithm one, Attribute attribute, uint32_t value, std::vector<Algorithm>& found);
  std::vector<uint32_t> Values(const Algorithm& algorithm, Attribute attribute) const;
  bool Add(const Algorithm& one, std::vector<Algorithm>& found);

  Problem problem_;
  std::vector<Algorithm> named_;
  TileOrder order_;
  cublasComputeType_t compute_ = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale_ = CUDA_R_32F, a_ = CUDA_R_16BF, b_ = CUDA_R_16BF, d_ = CUDA_R_16BF;
  std::set<Words> tried_, refused_;
};

}  // namespace weft::cuda
