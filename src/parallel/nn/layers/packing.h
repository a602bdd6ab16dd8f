// Packing: a batch of padded sequences as rows that hold only the real tokens, so that no layer computes padding.
// PyTorch's nn.TransformerEncoder does so with enable_nested_tensor, in inference only. Here it works in training too.
//
//   Tensor places = nn::PackedPlaces(lengths, T, {.groups = 2});   // on the host: i32 [G, N]
//   auto step = Compile([&](Var src, Var places) {
//     nn::Packing packing(places, B, T);
//     Var y = encoder(src, packing);                               // [B, T, C]; padding is 0
//     ...
//   }, state);
//
// The B sequences are divided into G groups of B / G neighbors. A row holds the real tokens of one group, and empty
// slots at its end. All shapes are known when a function is traced, so N is rounded up and few programs are needed.
//
// A row lies where the sequences of its group lie. On a mesh, G must be a multiple of the number of ranks that share
// the batch, and `places` must be sharded as the batch is: Shard(0). Any other G gives the same values, but sequences
// are then gathered, and ranks repeat the work of others. Heads and hidden dims are sharded by the plan of the model,
// with packed rows as without. Without a multiple of G that divides B, add sequences of length 0.
//
// Dropout draws its bits by slot: element [g, n, c] of the packed rows has the bits of that element of [G, N, C]. So
// the bits do not depend on the mesh, but on G and N, and they are not those of the padded batch.
//
// B sequences, T tokens of a sequence, C width, G groups, N slots of a row.
#pragma once
#include <cstdint>
#include <span>

#include "weft/core/base/tensor.h"
#include "weft/core/ir/node.h"

namespace weft::nn {

struct PackingOptions {
  int64_t groups = 1;  // G; divides B
  int64_t slots = 0;   // N; 0: PackedSlots chooses it
};

// Returns N: the real tokens of the group that has most of them, rounded up to a multiple of 1/32 of the group's B / G
// x T tokens, itself rounded up to a multiple of 8. So a function over packed rows is traced for at most 32 values of
// N. Ranks that know only the lengths of their own sequences take the largest N of all ranks as PackingOptions::slots.
//
// Throws Error unless 0 <= length <= tokens for each sequence, and groups divides their number.
int64_t PackedSlots(std::span<const int64_t> lengths, int64_t tokens, int64_t groups = 1);

// Returns which token each slot holds, i32 [G, N] on the host: token t of sequence b of the group is b T + t, and an
// empty slot is -1. The first lengths[b] tokens of a sequence are real. Throws the errors of PackedSlots, and Error if
// options.slots is given and too small.
Tensor PackedPlaces(std::span<const int64_t> lengths, int64_t tokens, const PackingOptions& options = {});
// Takes padding anywhere in a sequence: bool [B, T] on the host, true where a token is padding.
Tensor PackedPlaces(const Tensor& padding, const PackingOptions& options = {});

// The way between a padded batch and its packed rows, in a function or op by op. It costs two index tensors of [G, N]
// and [G, B / G x T] elements, and is linear in what it moves.
class Packing {
 public:
  // `places` is what PackedPlaces returned. No token may have two slots. The order of a sequence's tokens in a row must
  // be theirs if a causal mask is used. Throws Error for places that do not fit, with the caller's line.
  Packing(Var places, int64_t batch, int64_t tokens, Loc loc = Loc::current());

  // [B, T, ...] -> [G, N, ...]. Empty slots get 0.
  Var Pack(Var x, Loc loc = Loc::current()) const;
  // [G, N, ...] -> [B, T, ...]. Padding gets 0.
  Var Unpack(Var rows, Loc loc = Loc::current()) const;
  // The sequence of each slot within its group, and -1 for an empty slot: i64 [G, N]. Attention over packed rows takes
  // them as AttentionMasks::query_segments and key_segments.
  const Var& segments() const { return segments_; }
  // Returns the position of each slot's token in its sequence, and 0 for an empty slot: i64 [G, N].
  Var Positions(Loc loc = Loc::current()) const;

  int64_t batch() const { return batch_; }
  int64_t tokens() const { return tokens_; }

 private:
  int64_t groups() const { return places_.dim(0); }

  int64_t batch_, tokens_;
  Var places_, slots_, segments_;  // i64: [G, N], [G, B / G x T] with -1 for padding, [G, N]
};

}  // namespace weft::nn
