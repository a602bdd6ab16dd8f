// The workspace of the gradient of an embedding's table: that of a sort of its positions by row, then what the sums
// need. Host code without CUDA.
#pragma once
#include <cstddef>
#include <cstdint>

#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// How a sort's workspace is laid out, and by which digits it goes.
class RowSortLayout {
 public:
  static constexpr int kDigit = 9, kBins = 1 << kDigit, kMostPasses = 4;  // bits of a digit, at most
  static constexpr int kThreads = kBins;                                  // a thread knows about a digit
  static constexpr int kItems = 2, kTile = kItems * kThreads;             // entries of a tile where there are several
  static constexpr int kItemsAlone = 4, kAlone = kItemsAlone * kThreads;  // and where one takes all
  static constexpr uint32_t kMostEntries = 1u << 30;

  // `zeros` words of the workspace are zero after the sort, for what comes next.
  RowSortLayout(uint32_t count, uint32_t rows, size_t zeros);
  size_t bytes() const { return bytes_; }
  // One block sorts all. It starts before a kernel that lets it has ended, if only Clear came before that.
  bool alone() const { return count_ <= uint32_t(kAlone); }

 protected:
  uint32_t count_;
  int passes_, bits_;  // of a digit
  uint32_t tiles_;
  size_t entries_[2], spans_, zeros_, tickets_, counts_, sums_;  // where they begin
  size_t clear_, bytes_ = 0;                                     // from clear_ on all is set to 0
};

// Positions of a window and of a piece; rows of twice as many or more are cut.
inline constexpr uint32_t kEmbeddingPiece = 64;

struct EmbeddingGradLayout {
  RowSortLayout sort;
  size_t cut, partial, bytes;  // where rows that are cut and the sums of pieces begin; all
  explicit EmbeddingGradLayout(const KernelCall& call);
};
size_t EmbeddingGradWorkspace(const KernelCall& call);

}  // namespace weft::cuda
