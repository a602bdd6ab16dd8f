// AlgorithmFile: the algorithms of products that were found to be fastest, kept between runs in a CacheFile. Host code
// without CUDA.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "weft/kernels/common/cache_file.h"
#include "weft/kernels/cuda/plan/product.h"

namespace weft::cuda {

using AlgorithmWords = std::array<uint64_t, 8>;  // the library's opaque words
using AlgorithmMap = absl::flat_hash_map<ProductKey, AlgorithmWords>;

class AlgorithmFile {
 public:
  // Keeps nothing if `path` is empty. An algorithm is valid only under the same `title`, which names the device and the
  // library version.
  AlgorithmFile(std::string path, const std::string& title);

  AlgorithmMap Read() const;
  void Add(const ProductKey& key, const AlgorithmWords& words) const;

  // Under the lock, one rank times a product and all multiply by the same algorithm.
  struct Lock : CacheFile::Lock {
    explicit Lock(const AlgorithmFile& file, std::chrono::milliseconds longest = kLongestWait)
        : CacheFile::Lock(file.file_, longest) {}
  };

 private:
  CacheFile file_;
};

// Returns weft/cublaslt-<version>-<device>.txt in the folder of CachePath, or an empty string if there is none.
std::string AlgorithmPath(std::string_view version, std::string_view device);

}  // namespace weft::cuda
