// Sorts the positions of ids by the rows that they name, and keeps the order of positions within a row. A batch has
// some hundred thousand ids of at most 18 bits. With digits of 9 bits that takes two passes. Tiles are small, so that
// every multiprocessor has one; tiles of cub::DeviceRadixSort hold over 8000 keys, which would put only 15 blocks to
// work. The sort also finds the span of each row's positions.
#pragma once
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/embedding/embedding.cuh"
#include "weft/kernels/cuda/plan/embedding_sizes.h"

namespace weft::cuda {

struct alignas(8) RowEntry {
  uint32_t row, position;
};
static_assert(sizeof(RowEntry) == sizeof(uint2));

// The range of a row's entries among the sorted ones: [begin, end). All zero if the row has none.
struct RowSpan {
  uint32_t not_begin, end;  // begin is stored as its complement, so that both only grow
  __device__ __forceinline__ uint32_t begin() const { return ~not_begin; }
  __device__ __forceinline__ uint32_t count() const { return end ? end - begin() : 0; }
};

// The sort for a workspace with this layout.
class RowSort : public RowSortLayout {
 public:
  explicit RowSort(const RowSortLayout& layout) : RowSortLayout(layout) {}

  struct Result {
    const RowEntry* entries;  // [count]; rows that are not held come last, as row `rows`
    const RowSpan* spans;     // [rows + 1]; the last one spans those
    uint32_t* zeros;
  };
  void Clear(CudaDevice& device, void* workspace) const;  // must be called first
  Result Run(CudaDevice& device, const Ids& ids, void* workspace) const;
};

}  // namespace weft::cuda
