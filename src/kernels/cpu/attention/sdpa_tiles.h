// Shared by the forward and the backward of attention: sizes, and tiles of queries and keys.
//
// Tiles are transposed: a score tile is [keys, queries]. Every vector operation then runs over queries, and a softmax
// needs no sum across the lanes of a vector. K and V are read in place, as the factor whose elements are broadcast.
// Legend: B batch, T queries, S keys, H query heads, G KV heads, D and E head sizes of keys and values; Q a block of
// queries, K one of keys.
#pragma once
#include <cmath>

#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/scratch.h"
#include "weft/kernels/cpu/loops/transpose.h"
#include "weft/kernels/cpu/product/tile_product.h"

namespace weft::cpu {

inline constexpr int64_t kKeyBlock = 64;
inline constexpr int64_t kQueryBlock = 32;

struct SdpaSizes {
  int64_t B, T, S, H, G, D, E;
  int64_t group;  // query heads per KV head
  int64_t first_head, first_kv_head;
  int64_t shift;        // local query i stands at local key i + shift, plus the offset of its sequence
  int64_t left, right;  // the window around that position; -1: open
  double scale;
  bool softcap;         // whether scores are capped
  int64_t query_block;  // columns of a tile

  SdpaSizes(const KernelCall& call, int64_t lanes) {
    const TensorView &q = call.in[0], &k = call.in[1];
    B = q.dim(0).extent, T = q.dim(1).extent, H = q.dim(2).extent, D = q.dim(3).extent;
    S = k.dim(1).extent, G = k.dim(2).extent, E = call.in[2].dim(3).extent;
    group = q.dim(2).global / std::max<int64_t>(k.dim(2).global, 1);
    first_head = q.dim(2).offset, first_kv_head = k.dim(2).offset;
    left = call.attrs->IntOr("left", -1);
    right = call.attrs->Int("causal") ? 0 : call.attrs->IntOr("right", -1);
    shift = q.dim(1).offset - k.dim(1).offset + call.attrs->IntOr("causal_offset", 0);
    scale = call.attrs->Has("scale") ? call.attrs->Float("scale") : 0;
    if (scale == 0) scale = 1 / std::sqrt(double(q.dim(3).global));
    softcap = call.attrs->Has("softcap");
    query_block = std::min(kQueryBlock, RoundUp(std::max<int64_t>(T, 1), lanes));
  }
  int64_t KvHead(int64_t h) const { return (h + first_head) / group - first_kv_head; }
  int64_t WidestHead() const { return std::max(D, E); }
};

// The rows of one head of one sequence, as C. They are read in place if their dtype is that of C, otherwise through a
// tile.
template <class C>
class HeadRows {
 public:
  HeadRows(const TensorView& x, int64_t b, int64_t h)
      : read_(x),
        base_(b * x.dim(0).stride + h * x.dim(2).stride),
        step_(x.dim(1).stride),
        columns_(x.dim(3).extent),
        direct_(x.dtype == kDTypeOf<C>) {}
  // Returns rows [begin, begin + n), [n, D], as the left factor of a product.
  Left<C> Block(int64_t begin, int64_t n, C* tile) const {
    int64_t at = base_ + begin * step_;
    if (direct_) return {read_.Row(at, 1, columns_, tile), step_, 1};
    for (int64_t i = 0; i < n; i++) read_.Copy(at + i * step_, 1, columns_, tile + i * columns_);
    return {tile, columns_, 1};
  }
  const C* Row(int64_t i, C* tile) const { return read_.Row(base_ + i * step_, 1, columns_, tile); }

 private:
  Reader<C> read_;
  int64_t base_, step_, columns_;
  bool direct_;
};

template <class C>
Left<C> Transposed(Left<C> a) {
  return {a.data, a.column, a.row};
}

// Writes n rows of x, transposed and scaled, to y [D, width], with zeros in the columns from n on. `tile` holds [Q, D].
template <class C>
void LoadTransposed(const HeadRows<C>& x, int64_t first, int64_t n, int64_t D, C scale, int64_t width, C* y, C* tile) {
  if (n < width) std::fill(y, y + D * width, C(0));
  Left<C> rows = x.Block(first, n, tile);  // [n, D]
  TransposeTile(rows.data, rows.row, n, D, y, width);
  for (int64_t i = 0; i < D * width; i += kWidth<C>) StoreVector(y + i, LoadVector(y + i) * scale);
}

// Stores the columns of y [D, width], each multiplied by its scale, as n rows of head h of x. `tile` holds [Q, D].
template <class C>
void StoreTransposed(const TensorView& x, int64_t b, int64_t h, int64_t first, int64_t n, int64_t D, int64_t width,
                     const C* scale, C* y, C* tile) {
  for (int64_t d = 0; d < D; d++)
    for (int64_t i = 0; i < width; i += kWidth<C>)
      StoreVector(y + d * width + i, LoadVector(y + d * width + i) * LoadVector(scale + i));
  int64_t step = x.dim(1).stride, at = b * x.dim(0).stride + first * step + h * x.dim(2).stride;
  if (x.dtype == kDTypeOf<C>) return TransposeTile(y, width, D, n, x.as<C>() + at, step);
  TransposeTile(y, width, D, n, tile, D);
  Writer<C> to(x);
  for (int64_t i = 0; i < n; i++) to.Copy(tile + i * D, at + i * step, 1, D);
}

}  // namespace weft::cpu
