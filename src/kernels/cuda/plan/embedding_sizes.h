// The workspace of the gradient of an embedding's table: that of a sort of its positions by row, then that of the sums.
// Host code without CUDA.
#pragma once
#include <cstddef>
#include <cstdint>

#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// How a sort's workspace is laid out, and how many digits it sorts by.
class RowSortLayout {
 public:
  static constexpr int kDigit = 9, kBins = 1 << kDigit, kMostPasses = 4;  // kDigit: maximum bits per digit
  static constexpr int kThreads = kBins;                                  // one thread per value of a digit
  static constexpr int kItems = 2, kTile = kItems * kThreads;             // entries per tile if there are several tiles
  static constexpr int kItemsAlone = 4, kAlone = kItemsAlone * kThreads;  // and if one block takes all entries
  static constexpr uint32_t kMostEntries = 1u << 30;

  // `zeros` words of the workspace are zero after the sort, for the caller's use.
  RowSortLayout(uint32_t count, uint32_t rows, size_t zeros);
  size_t bytes() const { return bytes_; }
  // Returns whether one block sorts all entries. If the previous kernel calls LetNextStart, that block may start while
  // it still runs, so Clear must come before that kernel.
  bool alone() const { return count_ <= uint32_t(kAlone); }

 protected:
  uint32_t count_;
  int passes_, bits_;  // passes; bits per digit
  uint32_t tiles_;
  size_t entries_[2], spans_, zeros_, tickets_, counts_, sums_;  // offsets in the workspace
  size_t clear_, bytes_ = 0;                                     // everything from clear_ on is set to 0
};

// Positions per window and per piece. Rows with at least twice as many positions are cut into pieces.
inline constexpr uint32_t kEmbeddingPiece = 64;

struct EmbeddingGradLayout {
  RowSortLayout sort;
  size_t cut, partial, bytes;  // offsets of the list of cut rows and of the sums of pieces; total
  explicit EmbeddingGradLayout(const KernelCall& call);
};
size_t EmbeddingGradWorkspace(const KernelCall& call);

}  // namespace weft::cuda
