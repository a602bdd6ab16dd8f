// Attention on CUDA: the sizes and operands of a call in the form that the kernels take. Host code without CUDA.
//
// Legend: B batch, T queries, S keys, H query heads, G KV heads, D head size of queries and keys,
// E head size of values, all as held by this rank.
#pragma once
#include <algorithm>

#include "weft/core/runtime/kernel.h"
#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {

// One of q, k, v, out, ... [B, rows, heads, D], or lse [B, rows, heads]. Strides are in elements; columns are dense.
struct SdpaOperand {
  void* data;
  int64_t batch, row, head;

  template <class T>
  constexpr T* At(int64_t b, int64_t i, int64_t h) const {
    return static_cast<T*>(data) + b * batch + i * row + h * head;
  }
};
SdpaOperand OperandOf(const TensorView& view);
// Returns whether rows of q, k, v, out and their gradients begin at multiples of 16 bytes. For views without data, as
// in plans, only the strides decide.
bool HasAlignedRows(const KernelCall& call);

// Members are constexpr so that kernels can call them too.
struct SdpaSizes {
  int B, T, S, H, G, D, E;
  int group;  // query heads per KV head
  int first_head, first_kv_head;
  int shift;  // local query i sees the local keys j <= i + shift, which are all keys without a causal mask
  bool wide;  // rows of all operands are whole units of 16 bytes, at multiples of 16 bytes
  double scale;

  explicit SdpaSizes(const KernelCall& call);
  constexpr int KvHead(int h) const { return (h + first_head) / group - first_kv_head; }
  // The local query heads of local KV head g are [FirstHead, EndHead). A rank may hold a part of a group, or nothing.
  constexpr int FirstHead(int g) const { return std::clamp((g + first_kv_head) * group - first_head, 0, H); }
  constexpr int EndHead(int g) const { return FirstHead(g + 1); }
  constexpr int Visible(int i) const { return std::clamp(i + shift + 1, 0, S); }  // keys that query i sees
  constexpr int FirstQuery(int j) const { return std::clamp(j - shift, 0, T); }   // the first query that sees key j
  constexpr int PaddedT() const { return (T + kRowPadding - 1) / kRowPadding * kRowPadding; }

  static constexpr int kRowPadding = 128;  // a multiple of every block of queries
};

// The least and the greatest segment of kSegmentTile tokens, with which flash skips keys of other segments.
struct SegmentRange {
  int64_t low, high;
};
inline constexpr int kSegmentTile = 64;
constexpr int SegmentTiles(int tokens) { return (tokens + kSegmentTile - 1) / kSegmentTile; }
// Returns the bytes of the ranges of all queries and keys, or 0 if the call has no segments.
size_t SegmentRangeBytes(const KernelCall& call);

// Returns the bytes of the two values per query, of the accumulate type, that the backward pass needs
// (attention/sdpa_rows.h).
size_t SdpaRowsBytes(const KernelCall& grad_call);

inline bool IsSdpaGrad(const KernelCall& call) { return call.out.size() > 2; }
inline bool IsHalf(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
// Returns whether the call has any option beyond a causal mask, its offset and the scale.
bool HasOptions(const KernelCall& call);
// Returns whether flash adds up dq in any order.
bool FlashSumsQueries(const KernelCall& call);

// How attention of few queries is split over blocks (attention/sdpa_split.cu).
inline constexpr int kMostSplits = 2 * kProcessors;

// A block takes one query of `rows` query heads that share a KV head, and one of `splits` parts of the keys that the
// query sees. The last block of a query and its heads joins the parts.
struct SdpaSplit {
  bool takes = false;  // whether the kernel runs the call; false for gradients
  int rows = 0;        // heads of a block: 1, 4 or 8
  int chunks = 0;      // blocks for the heads of a KV head
  int splits = 0;
  int tiles = 0;     // B x T x G x chunks, each with `splits` blocks
  size_t bytes = 0;  // of workspace: partial sums

  explicit SdpaSplit(const KernelCall& call);
};

// How the gradient is cut into work for one pass over the scores on Hopper (attention/sdpa_one_pass.cu).
//
// An item is 128 keys of a KV head and the queries that see them, of one of `parts` parts of the heads that share it.
// Sums in f32 lie in blocks of 64 rows and 64 columns, in the order in which the threads hold them.
struct SdpaOnePass {
  static constexpr int kKeys = 128, kBlock = 64;

  bool takes = false;    // whether shapes and dtypes fit
  bool leads = false;    // whether it takes less time than other gradients, with an order or without
  bool ordered = false;  // whether sums have an order, with kernels.deterministic; otherwise blocks add in any order
  int parts = 1;         // more than one add up dk and dv too
  int tiles = 0;         // of keys
  int section = 1;       // KV heads' parts whose items are worked on together
  int items = 0;
  // Offsets in the workspace, which begins with the rows of SdpaRows. `zeros` bytes from the counter on are 0 at first.
  size_t counter = 0, added = 0, query_sums = 0, key_sums = 0, value_sums = 0, bytes = 0, zeros = 0;

  explicit SdpaOnePass(const KernelCall& grad_call);

 private:
  void Cut(const KernelCall& call, const SdpaSizes& z);
  void Place(const SdpaSizes& z);
};

}  // namespace weft::cuda
