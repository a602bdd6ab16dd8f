// Chunk: computes the rows between collectives of activations in chunks, so that the collectives of one chunk run while
// another is computed (OverlapMode::kChunks).
//
//   all_gather x                      all_gather x0, x1
//   h = gelu(einsum(x, up))     ->    h0 = gelu(einsum(x0, up)), h1 = gelu(einsum(x1, up)), h = concat(h0, h1)
//   reduce_scatter einsum(h, down)    reduce_scatter einsum(h0, down), einsum(h1, down)
//
// Rows are a dim that nodes keep: the tokens of a sequence, or the sequences of a batch. The labels of the records
// decide which nodes these are. A region of such nodes begins and ends at a product or a collective. It goes through
// elementwise ops, norms and products that keep the rows, and from one collective to the next. Losses and gradients of
// weights contract the rows, so they read whole values. Attention does so if the rows are tokens. Sequences are cut
// where a rank has as many as there are chunks: then a pass is as many chains of nodes, each of which hides the
// collectives of the others.
//
// Where ranks shard the rows, each rank's shard is cut at the same places. So a chunk is gathered and reduced by the
// same collectives as the whole, with fewer rows, and each rank adds the same terms for an element in the same order.
// Values keep their bits if a product gives a row the same bits whatever the number of rows is, and if an all_reduce
// does so wherever an element is in it.
//
// Whole values that other nodes read are joined from their chunks by one copy, and chunks of whole values are copies
// too, unless a rank's chunks lie in order in its memory, as sequences do: they are packed slices and concats.
//
// Without options.chunks a product is computed in chunks only if this is expected to save time: the copies must take
// less time than the part of its collectives that other chunks hide, and most chunks must be large. Chunks of the
// backward pass must save more than gradients of weights hide without them (Interleave).
#pragma once
#include "weft/core/ir/local_program.h"

namespace weft {

struct ChunkOptions {
  // The number of chunks of all regions that have as many rows. With 0 there are two of sequences, or two or four of
  // tokens, where they are expected to save time. That depends on the other options.
  int chunks = 0;
  double link_time = 50;            // how many times as long a byte takes between ranks as in memory
  int64_t least_outputs = 1 << 16;  // elements that a chunk of a product has at least on a rank
};
LocalProgram Chunk(const LocalProgram& program, const ChunkOptions& options = {});

}  // namespace weft
