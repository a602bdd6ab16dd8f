// AlgorithmFile: the algorithms that were found to be fastest, kept between runs. Host code without CUDA.
//
// The file is text, with one line per product: its key, the algorithm as the library's opaque words, a checksum. If the
// file is missing, damaged, of another version or not writable, products are timed again and nothing else happens.
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
  // Keeps nothing if `path` is empty. An algorithm is valid only under the same `title`, which names the device and the
  // library version.
  AlgorithmFile(std::string path, std::string title);

  AlgorithmMap Read() const;
  // Adds to the file that is on disk now. Writes a temporary file and renames it, so that a reader sees the old file or
  // the new one.
  void Add(const ProductKey& key, const AlgorithmWords& words) const;

  // Makes other processes and threads of this host that take the lock wait, so that one rank times a product and all
  // multiply by the same algorithm. Gives up after 30 seconds, because nothing depends on the lock for correctness.
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

// Returns weft/cublaslt-<version>-<device>.txt in $XDG_CACHE_HOME or ~/.cache, or an empty string if neither variable
// is set.
std::string AlgorithmPath(std::string_view version, std::string_view device);

}  // namespace weft::cuda
