// AlgorithmFile: the algorithms that were found fastest, kept between runs. Host code without CUDA.
//
// Text, a line per product: its key, the algorithm as the library's opaque words, a checksum. Whatever is wrong with
// the file (absent, damaged, of another version, not writable) means only that products are timed again.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "weft/kernels/cuda/plan/product.h"

namespace weft::cuda {

using AlgorithmWords = std::array<uint64_t, 8>;
using AlgorithmMap = absl::flat_hash_map<ProductKey, AlgorithmWords>;

class AlgorithmFile {
 public:
  // Keeps nothing where `path` is empty. `title` must be the same for an algorithm to be valid: device and version.
  AlgorithmFile(std::string path, std::string title);

  AlgorithmMap Read() const;
  // Adds to what is on disk now: written aside and renamed, so that a reader sees the old file or the new one.
  void Add(const ProductKey& key, const AlgorithmWords& words) const;

  // Keeps the other processes and threads of this host that take it waiting, so that one rank times a product and all
  // multiply by the same algorithm. Gives up after a while: it is no more than a courtesy.
  class Lock {
   public:
    explicit Lock(const AlgorithmFile& file);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int descriptor_ = -1;
  };

 private:
  bool MakeFolder() const;
  std::string path_, header_;
};

// weft/cublaslt-<version>-<device>.txt in $XDG_CACHE_HOME or ~/.cache; empty where there is neither.
std::string AlgorithmPath(std::string_view version, std::string_view device);

}  // namespace weft::cuda
