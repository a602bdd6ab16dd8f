#include "weft/kernels/cuda/product/algorithm_search.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>

namespace weft::cuda {
namespace {

constexpr int kMostTileChecks = 400;
constexpr uint32_t kMostCustomOptions = 16, kMostSplits = 4;

size_t BytesOf(Attribute attribute) {
  bool is_short =
      attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
  return is_short ? sizeof(uint16_t) : sizeof(uint32_t);
}

bool SetAttribute(Algorithm& algorithm, Attribute attribute, uint32_t value) {
  return cublasLtMatmulAlgoConfigSetAttribute(&algorithm.words, attribute, &value, BytesOf(attribute)) ==
         CUBLAS_STATUS_SUCCESS;
}

// Returns a capability of one number, and 0 where the library does not know it.
uint32_t Capability(const Algorithm& algorithm, cublasLtMatmulAlgoCapAttributes_t capability) {
  uint32_t value = 0;
  size_t written = 0;
  cublasStatus_t status =
      cublasLtMatmulAlgoCapGetAttribute(&algorithm.words, capability, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

// Returns the tile ids or the ids of stages that an algorithm can have. With none of them it takes 0, "undefined".
std::vector<uint32_t> Listed(const Algorithm& algorithm, cublasLtMatmulAlgoCapAttributes_t list) {
  size_t bytes = 0;
  if (cublasLtMatmulAlgoCapGetAttribute(&algorithm.words, list, nullptr, 0, &bytes) != CUBLAS_STATUS_SUCCESS) bytes = 0;
  std::vector<uint32_t> ids(bytes / sizeof(uint32_t));
  if (ids.empty() ||
      cublasLtMatmulAlgoCapGetAttribute(&algorithm.words, list, ids.data(), bytes, &bytes) != CUBLAS_STATUS_SUCCESS)
    return {0};
  return ids;
}

std::vector<uint32_t> UpTo(uint32_t first, uint32_t last) {
  std::vector<uint32_t> values;
  for (uint32_t i = first; i <= last; i++) values.push_back(i);
  return values;
}

}  // namespace

uint32_t GetAttribute(const Algorithm& algorithm, Attribute attribute) {
  uint32_t value = 0;
  size_t written = 0;
  cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm.words, attribute, &value, BytesOf(attribute), &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : 0;
}

std::string KeyOf(const Algorithm& algorithm) {
  std::string key;
  for (int i = CUBLASLT_ALGO_CONFIG_ID; i <= CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID; i++)
    key += (i ? ":" : "") + std::to_string(GetAttribute(algorithm, Attribute(i)));
  return key;
}

bool Accepts(const Problem& problem, const Algorithm& algorithm) {
  cublasLtMatmulHeuristicResult_t result{};
  cublasStatus_t status = cublasLtMatmulAlgoCheck(problem.handle, problem.operation, problem.a, problem.b, problem.d,
                                                  problem.d, &algorithm.words, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= problem.workspace_bytes;
}

AlgorithmSearch::AlgorithmSearch(const Problem& problem, const std::vector<Algorithm>& named)
    : problem_(problem), named_(named), order_(OrderOf(problem)) {
  for (const Algorithm& one : named) tried_.insert(WordsOf(one));
  ReadTypes();
}

std::vector<Algorithm> AlgorithmSearch::Tiles() {
  std::vector<Algorithm> kinds = Kinds(), found;
  std::vector<std::vector<uint32_t>> tiles;
  for (const Algorithm& kind : kinds) tiles.push_back(TilesOf(kind));
  int checks = 0;
  bool more = true;
  for (size_t rank = 0; more && checks < kMostTileChecks; rank++) {
    more = false;
    for (size_t i = 0; i < kinds.size(); i++)
      if (rank < tiles[i].size()) checks += AddTile(kinds[i], tiles[i][rank], found), more = true;
  }
  return found;
}

std::vector<Algorithm> AlgorithmSearch::Neighbours(const std::vector<Algorithm>& of) {
  std::vector<Algorithm> found;
  for (const Algorithm& one : of)
    for (Attribute attribute :
         {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_STAGES_ID,
          CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
          CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID})
      for (uint32_t value : Values(one, attribute)) AddChanged(one, attribute, value, found);
  return found;
}

AlgorithmSearch::Words AlgorithmSearch::WordsOf(const Algorithm& algorithm) {
  Words words;
  std::copy(std::begin(algorithm.words.data), std::end(algorithm.words.data), words.begin());
  return words;
}

TileOrder AlgorithmSearch::OrderOf(const Problem& problem) {
  uint64_t m = 1, n = 1;
  size_t written = 0;
  int device = 0, multiprocessors = 1;
  cublasLtMatrixLayoutGetAttribute(problem.d, CUBLASLT_MATRIX_LAYOUT_ROWS, &m, sizeof m, &written);
  cublasLtMatrixLayoutGetAttribute(problem.d, CUBLASLT_MATRIX_LAYOUT_COLS, &n, sizeof n, &written);
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  return {m, n, multiprocessors};
}

void AlgorithmSearch::ReadTypes() {
  size_t written = 0;
  cublasLtMatmulDescGetAttribute(problem_.operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute_, sizeof compute_,
                                 &written);
  cublasLtMatmulDescGetAttribute(problem_.operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale_, sizeof scale_, &written);
  auto read = [&](cublasLtMatrixLayout_t layout, cudaDataType_t& type) {
    cublasLtMatrixLayoutGetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type, &written);
  };
  read(problem_.a, a_), read(problem_.b, b_), read(problem_.d, d_);
}

// Returns the algorithm's id with default attributes, of which the library knows what it can do.
Algorithm AlgorithmSearch::Plain(const Algorithm& like) const {
  Algorithm plain = like;
  int id = int(GetAttribute(like, CUBLASLT_ALGO_CONFIG_ID));
  cublasStatus_t status = cublasLtMatmulAlgoInit(problem_.handle, compute_, scale_, a_, b_, d_, d_, id, &plain.words);
  return status == CUBLAS_STATUS_SUCCESS ? plain : like;
}

std::vector<uint32_t> AlgorithmSearch::TilesOf(const Algorithm& algorithm) const {
  return order_.Sort(Listed(Plain(algorithm), CUBLASLT_ALGO_CAP_TILE_IDS));
}

// Returns one named algorithm for all that differ only in tile and cluster.
std::vector<Algorithm> AlgorithmSearch::Kinds() const {
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
int AlgorithmSearch::AddTile(const Algorithm& kind, uint32_t tile, std::vector<Algorithm>& found) {
  Algorithm one = kind;
  int checks = 0;
  auto add = [&](uint32_t cluster) {
    return SetAttribute(one, CUBLASLT_ALGO_CONFIG_TILE_ID, tile) &&
           SetAttribute(one, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster) && ++checks && Add(one, found);
  };
  bool same = add(GetAttribute(kind, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
  bool automatic = add(CUBLASLT_CLUSTER_SHAPE_AUTO);
  if (same || automatic) add(CUBLASLT_CLUSTER_SHAPE_2x1x1), add(CUBLASLT_CLUSTER_SHAPE_1x2x1);
  return checks;
}

void AlgorithmSearch::AddChanged(Algorithm one, Attribute attribute, uint32_t value, std::vector<Algorithm>& found) {
  if (!SetAttribute(one, attribute, value)) return;
  if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM &&
      !SetAttribute(one, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                    value > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE))
    return;
  Add(one, found);
}

// Returns the values of an attribute that an algorithm may have.
std::vector<uint32_t> AlgorithmSearch::Values(const Algorithm& algorithm, Attribute attribute) const {
  Algorithm plain = Plain(algorithm);
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
      return UpTo(0, std::min(1u, Capability(plain, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT)));
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
      return UpTo(0, std::min(kMostCustomOptions, Capability(plain, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX)));
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return UpTo(1, Capability(plain, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) ? kMostSplits : 1);
    default:
      return UpTo(CUBLASLT_MATMUL_INNER_SHAPE_UNDEFINED, CUBLASLT_MATMUL_INNER_SHAPE_END - 1);
  }
}

// Returns whether the library accepts the algorithm, now or earlier.
bool AlgorithmSearch::Add(const Algorithm& one, std::vector<Algorithm>& found) {
  if (!tried_.insert(WordsOf(one)).second) return !refused_.contains(WordsOf(one));
  uint32_t reduction = GetAttribute(one, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  bool sums_wide = reduction == CUBLASLT_REDUCTION_SCHEME_NONE || reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  bool accepted = sums_wide && Accepts(problem_, one);
  if (accepted)
    found.push_back(one);
  else
    refused_.insert(WordsOf(one));
  return accepted;
}

}  // namespace weft::cuda
