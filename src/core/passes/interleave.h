// Interleave: orders the kernels of a program so that there is work while its collectives run.
//
// The order is that of a list scheduler. It simulates one stream of kernels and one lane of collectives per mesh axis,
// and always runs the most urgent kernel whose operands are there. A kernel is the more urgent the longer the chain of
// work is that waits for it. So
//
//   - a gradient of a weight, for which only the update waits, runs while activations are on their way;
//   - two independent halves of a batch take turns (OverlapMode::kHalves);
//   - so do chunks of rows (OverlapMode::kChunks).
//
// A product gets as urgent as the chain a block's work after its operands are there, because it keeps them in memory.
// So it seldom waits longer.
//
// Nodes of the optimizer keep their order, after all others. What needs only parameters, such as the gathers of
// weights, or what the backward pass computes again, comes directly before its first reader; Schedule moves gathers
// from there. Only the order changes, so values keep their bits.
//
// A byte of a collective is taken to last `link_time` times as long as one in memory (node_time.h), but all collectives
// together no longer than all kernels: those that are longer no order hides. The order is the same on all ranks,
// whatever they measure.
//
// Parts of a batch, halves or chunks, must not move in step, or all of them would wait at the same time. So each part
// is less or more urgent than the one before it, by a share of a block's time. Of several shares, the one is taken
// whose order takes the least time.
#pragma once
#include "weft/core/ir/local_program.h"

namespace weft {

LocalProgram Interleave(const LocalProgram& program, double link_time);

}  // namespace weft
