#include "weft/kernels/cuda/plan/embedding_sizes.h"

#include <algorithm>
#include <bit>

#include "weft/kernels/common/nest.h"

namespace weft::cuda {

RowSortLayout::RowSortLayout(uint32_t count, uint32_t rows, size_t zeros)
    : count_(count),
      passes_(std::max(1, int(CeilDiv(std::bit_width(rows), kDigit)))),
      bits_(int(CeilDiv(std::bit_width(rows), passes_))),
      tiles_(uint32_t(CeilDiv(count, kTile))) {
  WEFT_CHECK(count < kMostEntries, "embedding_grad on CUDA: 2^30 ids or more on one device; shard the batch");
  auto take = [&](size_t words) {
    size_t at = bytes_;
    bytes_ += (words * sizeof(uint32_t) + 255) / 256 * 256;
    return at;
  };
  for (size_t& of : entries_) of = take(2 * size_t(count));
  clear_ = spans_ = take(2 * (size_t(rows) + 1));
  zeros_ = take(zeros);
  tickets_ = take(kMostPasses);
  counts_ = take(size_t(passes_) * kBins);
  sums_ = take(size_t(passes_) * tiles_ * kBins);
}

EmbeddingGradLayout::EmbeddingGradLayout(const KernelCall& call)
    : sort(uint32_t(call.in[0].NumElements()), uint32_t(call.out[0].dim(0).extent), /*zeros=*/1) {
  size_t count = size_t(call.in[0].NumElements()), columns = size_t(call.out[0].dim(1).extent);
  size_t sum = SizeOf(call.in[1].dtype) == 2 ? sizeof(float) : sizeof(double);
  cut = sort.bytes();
  partial = cut + (count / (2 * kEmbeddingPiece) * sizeof(uint32_t) + 255) / 256 * 256;
  bytes = partial + count / kEmbeddingPiece * columns * sum;
}

size_t EmbeddingGradWorkspace(const KernelCall& call) { return EmbeddingGradLayout(call).bytes; }

}  // namespace weft::cuda
