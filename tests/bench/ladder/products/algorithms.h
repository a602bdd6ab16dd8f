// Algorithms of cuBLASLt for a product in addition to those that its heuristic names, which are at most 8. They are
// guesses: the library accepts them, but only a launch shows whether they run, and only a comparison that they are
// right.
//   const Problem problem = {handle, operation, a, b, d, workspace_bytes};
//   AlgorithmSearch search(problem, named);
//   for (const Algorithm& one : search.Tiles()) ...         // and search.OtherKinds(), and then
//   for (const Algorithm& one : search.Neighbours(fastest)) ...
#pragma once
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tiles.h"

struct Algorithm {  // nvcc 13.0 fails on a vector of the library's own type, which has no name
  cublasLtMatmulAlgo_t words;
};

// C[m, n] is D, as in products without an addend.
struct Problem {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, d;
  size_t workspace_bytes;
};

// ---- attributes ----

using Attribute = cublasLtMatmulAlgoConfigAttributes_t;

inline size_t BytesOf(Attribute attribute) {
  const bool is_short =
      attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
  return is_short ? sizeof(uint16_t) : sizeof(uint32_t);
}

// Returns 0, which is the default of nearly all attributes, where the library does not know the attribute.
inline uint32_t GetAttribute(const Algorithm& algorithm, Attribute attribute) {
  uint32_t value = 0;
  size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm.words, attribute, &value, BytesOf(attribute), &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

inline bool SetAttribute(Algorithm& algorithm, Attribute attribute, uint32_t value) {
  return cublasLtMatmulAlgoConfigSetAttribute(&algorithm.words, attribute, &value, BytesOf(attribute)) ==
         CUBLAS_STATUS_SUCCESS;
}

// Returns the attributes in the order of the library's enumeration, joined by colons: id, tile, split-K, reduction,
// swizzle, custom option, stages, inner shape, cluster.
inline std::string KeyOf(const Algorithm& algorithm) {
  std::string key;
  for (int i = CUBLASLT_ALGO_CONFIG_ID; i <= CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID; ++i)
    key += (i ? ":" : "") + std::to_string(GetAttribute(algorithm, Attribute(i)));
  return key;
}

// ---- capabilities ----

// Returns a capability of one number, and 0 where the library does not know it.
inline uint32_t Capability(const Algorithm& algorithm, cublasLtMatmulAlgoCapAttributes_t capability) {
  uint32_t value = 0;
  size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoCapGetAttribute(&algorithm.words, capability, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

// Returns the tile ids or the ids of stages that an algorithm can have. With none of them it takes 0, "undefined".
inline std::vector<uint32_t> Listed(const Algorithm& algorithm, cublasLtMatmulAlgoCapAttributes_t list) {
  size_t bytes = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algorithm.words, list, nullptr, 0, &bytes) != CUBLAS_STATUS_SUCCESS) bytes = 0;
  std::vector<uint32_t> ids(bytes / sizeof(uint32_t));
  if (ids.empty() ||
      cublasLtMatmulAlgoCapGetAttribute(&algorithm.words, list, ids.data(), bytes, &bytes) != CUBLAS_STATUS_SUCCESS)
    return {0};
  return ids;
}

// ---- the search ----

class AlgorithmSearch {
 public:
  AlgorithmSearch(const Problem& problem, const std::vector<Algorithm>& named)
      : problem_(problem), named_(named), order_(OrderOf(problem)) {
    for (const Algorithm& one : named) tried_.insert(WordsOf(one));
    ReadTypes();
  }

  // Returns the named algorithms with other tiles and clusters, the most promising tiles first.
  std::vector<Algorithm> Tiles() {
    const std::vector<Algorithm> kinds = Kinds();
    std::vector<std::vector<uint32_t>> tiles;
    for (const Algorithm& kind : kinds) tiles.push_back(TilesOf(kind));
    std::vector<Algorithm> found;
    int checks = 0;
    bool more = true;
    for (size_t rank = 0; more && checks < kMostTileChecks; ++rank) {
      more = false;
      for (size_t i = 0; i < kinds.size(); ++i)
        if (rank < tiles[i].size()) checks += AddTile(kinds[i], tiles[i][rank], found), more = true;
    }
    return found;
  }

  // Returns a few algorithms for each id of the library, without what the heuristic has set. Later ids are newer, so
  // they come first.
  std::vector<Algorithm> OtherKinds() {
    int ids[kMostIds], count = 0;
    if (cublasLtMatmulAlgoGetIds(problem_.handle, compute_, scale_, a_, b_, d_, d_, kMostIds, ids, &count) !=
        CUBLAS_STATUS_SUCCESS)
      return {};
    std::sort(ids, ids + count, std::greater<>());
    std::vector<Algorithm> found;
    for (int i = 0; i < count; ++i) AddKind(ids[i], found);
    return found;
  }

  // Returns algorithms that differ from the given ones in one attribute.
  std::vector<Algorithm> Neighbours(const std::vector<Algorithm>& of) {
    std::vector<Algorithm> found;
    for (const Algorithm& one : of)
      for (const Attribute attribute :
           {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_STAGES_ID,
            CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
            CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID})
        for (const uint32_t value : Values(one, attribute)) AddChanged(one, attribute, value, found);
    return found;
  }

 private:
  static constexpr int kMostTileChecks = 400, kMostKindChecks = 24, kMostIds = 256;
  static constexpr size_t kPerKind = 3;  // algorithms of a kind that the heuristic does not name
  static constexpr uint32_t kMostCustomOptions = 16, kMostSplits = 4;

  using Words = std::array<uint64_t, sizeof(cublasLtMatmulAlgo_t::data) / sizeof(uint64_t)>;
  static Words WordsOf(const Algorithm& one) {
    Words words;
    std::copy(std::begin(one.words.data), std::end(one.words.data), words.begin());
    return words;
  }

  static TileOrder OrderOf(const Problem& problem) {
    uint64_t m = 1, n = 1;
    size_t written = 0;
    int multiprocessors = 1;
    cublasLtMatrixLayoutGetAttribute(problem.d, CUBLASLT_MATRIX_LAYOUT_ROWS, &m, sizeof m, &written);
    cublasLtMatrixLayoutGetAttribute(problem.d, CUBLASLT_MATRIX_LAYOUT_COLS, &n, sizeof n, &written);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    return {m, n, multiprocessors};
  }

  void ReadTypes() {
    size_t written = 0;
    cublasLtMatmulDescGetAttribute(problem_.operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute_, sizeof compute_,
                                   &written);
    cublasLtMatmulDescGetAttribute(problem_.operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale_, sizeof scale_,
                                   &written);
    const auto read = [&](cublasLtMatrixLayout_t layout, cudaDataType_t& type) {
      cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type, &written);
    };
    read(problem_.a, a_), read(problem_.b, b_), read(problem_.d, d_);
  }

  // Returns the algorithm of an id with default attributes. Its capabilities are those of the id.
  bool Init(int id, Algorithm& algorithm) const {
    return cublasLtMatmulAlgoInit(problem_.handle, compute_, scale_, a_, b_, d_, d_, id, &algorithm.words) ==
           CUBLAS_STATUS_SUCCESS;
  }
  Algorithm Plain(const Algorithm& like) const {
    Algorithm plain = like;
    return Init(int(GetAttribute(like, CUBLASLT_ALGO_CONFIG_ID)), plain) ? plain : like;
  }
  std::vector<uint32_t> TilesOf(const Algorithm& algorithm) const {
    return order_.Sort(Listed(Plain(algorithm), CUBLASLT_ALGO_CAP_TILE_IDS));
  }

  // Returns one named algorithm for all that differ only in tile and cluster.
  std::vector<Algorithm> Kinds() const {
    std::vector<Algorithm> kinds;
    std::set<std::string> keys;
    for (const Algorithm& one : named_) {
      Algorithm bare = one;
      SetAttribute(bare, CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_MATMUL_TILE_UNDEFINED);
      SetAttribute(bare, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, CUBLASLT_CLUSTER_SHAPE_AUTO);
      if (keys.insert(KeyOf(bare)).second) kinds.push_back(one);
    }
    return kinds;
  }

  // Adds a kind with the tile and some clusters. Returns the number of checks. A tile that the library refuses with its
  // own choice of a cluster and with the kind's is not tried further.
  int AddTile(const Algorithm& kind, uint32_t tile, std::vector<Algorithm>& found) {
    Algorithm one = kind;
    int checks = 0;
    const auto add = [&](uint32_t cluster) {
      return SetAttribute(one, CUBLASLT_ALGO_CONFIG_TILE_ID, tile) &&
             SetAttribute(one, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster) && ++checks && Add(one, found);
    };
    const bool same = add(GetAttribute(kind, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
    const bool automatic = add(CUBLASLT_CLUSTER_SHAPE_AUTO);
    if (same || automatic) add(CUBLASLT_CLUSTER_SHAPE_2x1x1), add(CUBLASLT_CLUSTER_SHAPE_1x2x1);
    return checks;
  }

  void AddKind(int id, std::vector<Algorithm>& found) {
    Algorithm plain;
    if (!Init(id, plain)) return;
    const size_t most = found.size() + kPerKind;
    int checks = 0;
    for (const uint32_t tile : TilesOf(plain))
      for (const uint32_t stages : Listed(plain, CUBLASLT_ALGO_CAP_STAGES_IDS)) {
        if (found.size() == most || ++checks > kMostKindChecks) return;
        Algorithm one = plain;
        if (SetAttribute(one, CUBLASLT_ALGO_CONFIG_TILE_ID, tile) &&
            SetAttribute(one, CUBLASLT_ALGO_CONFIG_STAGES_ID, stages))
          Add(one, found);
      }
  }

  void AddChanged(Algorithm one, Attribute attribute, uint32_t value, std::vector<Algorithm>& found) {
    if (!SetAttribute(one, attribute, value)) return;
    // Partial sums of a split sum stay in the compute type. In the output type they would lose bits.
    if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM &&
        !SetAttribute(one, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                      value > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE))
      return;
    Add(one, found);
  }

  // Returns the values of an attribute that an algorithm may have.
  std::vector<uint32_t> Values(const Algorithm& algorithm, Attribute attribute) const {
    const Algorithm plain = Plain(algorithm);
    const auto up_to = [](uint32_t first, uint32_t last) {
      std::vector<uint32_t> values;
      for (uint32_t i = first; i <= last; ++i) values.push_back(i);
      return values;
    };
    switch (attribute) {
      case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
        return {CUBLASLT_CLUSTER_SHAPE_AUTO,  CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1,
                CUBLASLT_CLUSTER_SHAPE_1x2x1, CUBLASLT_CLUSTER_SHAPE_2x2x1, CUBLASLT_CLUSTER_SHAPE_4x1x1,
                CUBLASLT_CLUSTER_SHAPE_1x4x1};
      case CUBLASLT_ALGO_CONFIG_TILE_ID:
        return TileOrder::Near(GetAttribute(algorithm, attribute), Listed(plain, CUBLASLT_ALGO_CAP_TILE_IDS));
      case CUBLASLT_ALGO_CONFIG_STAGES_ID:
        return Listed(plain, CUBLASLT_ALGO_CAP_STAGES_IDS);
      case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
        return up_to(0, std::min(1u, Capability(plain, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT)));
      case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
        return up_to(0, std::min(kMostCustomOptions, Capability(plain, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX)));
      case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
        return up_to(1, Capability(plain, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) ? kMostSplits : 1);
      default:
        return up_to(CUBLASLT_MATMUL_INNER_SHAPE_UNDEFINED, CUBLASLT_MATMUL_INNER_SHAPE_END - 1);
    }
  }

  // Adds an algorithm that is new, that the library accepts, and that keeps partial sums in the compute type. Returns
  // whether the library accepts it, now or earlier.
  bool Add(const Algorithm& one, std::vector<Algorithm>& found) {
    if (!tried_.insert(WordsOf(one)).second) return refused_.count(WordsOf(one)) == 0;
    const uint32_t reduction = GetAttribute(one, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
    cublasLtMatmulHeuristicResult_t result{};
    const bool accepted =
        (reduction == CUBLASLT_REDUCTION_SCHEME_NONE || reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) &&
        cublasLtMatmulAlgoCheck(problem_.handle, problem_.operation, problem_.a, problem_.b, problem_.d, problem_.d,
                                &one.words, &result) == CUBLAS_STATUS_SUCCESS &&
        result.workspaceSize <= problem_.workspace_bytes;
    if (accepted)
      found.push_back(one);
    else
      refused_.insert(WordsOf(one));
    return accepted;
  }

  Problem problem_;
  std::vector<Algorithm> named_;
  TileOrder order_;
  cublasComputeType_t compute_ = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale_ = CUDA_R_32F, a_ = CUDA_R_16BF, b_ = CUDA_R_16BF, d_ = CUDA_R_16BF;
  std::set<Words> tried_, refused_;
};
