// Positions of ids sorted by the rows that they name, those of a row in their order. A batch has some hundred thousand
// ids of at most 18 bits: digits of 9 bits make that two passes, and tiles are small, so that all multiprocessors have
// one (those of cub::DeviceRadixSort hold over 8000 keys: 15 blocks at work). What a row's positions span comes along.
#pragma once
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/embedding/embedding.cuh"
#include "weft/kernels/cuda/plan/embedding_sizes.h"

namespace weft::cuda {

struct alignas(8) RowEntry {
  uint32_t row, position;
};
static_assert(sizeof(RowEntry) == sizeof(uint2));

// Where a row's entries lie among the sorted ones: [begin, end). All zero: it has none.
struct RowSpan {
  uint32_t not_begin, end;  // the first as its complement, so that both grow
  __device__ __forceinline__ uint32_t begin() const { return ~not_begin; }
  __device__ __forceinline__ uint32_t count() const { return end ? end - begin() : 0; }
};

// The sort whose workspace has this layout.
class RowSort : public RowSortLayout {
 public:
  explicit RowSort(const RowSortLayout& layout) : RowSortLayout(layout) {}

  struct Result {
    const RowEntry* entries;  // [count]; those of rows that are not held come last, as of row `rows`
    const RowSpan* spans;     // [rows + 1]; the last one: what is not held
    uint32_t* zeros;
  };
  void Clear(CudaDevice& device, void* workspace) const;  // comes first
  Result Run(CudaDevice& device, const Ids& ids, void* workspace) const;
};

}  // namespace weft::cuda
