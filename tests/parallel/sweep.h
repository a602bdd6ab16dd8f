// The op sweep: every op and every placement of its operands, on several meshes of in-process ranks, forward and
// backward, against one rank. There is no code per op: the op's record and samples describe it.
#pragma once
#include <string>
#include <vector>

#include "weft/core/ir/graph.h"
#include "weft/core/ir/record.h"
#include "weft/core/runtime/kernel.h"

namespace weft::sweep {

struct Options {
  const OpTable* ops = nullptr;                   // the rules to test; null for the real ones
  void (*damage)(Graph& local) = nullptr;         // changes each rank's program, as a wrong planner would
  void (*break_kernels)(KernelTable&) = nullptr;  // changes each rank's kernels
  std::vector<std::vector<int>> meshes = {{2, 2}, {2}, {3}, {4}};
  bool backward = true;
  size_t share = 1;  // runs every share-th placement, from a start that differs by op, sample and mesh
};

struct Result {
  int64_t cases = 0;     // placements that ran on a mesh, each compared on every rank
  int64_t runs = 0;      // cases x ranks
  int64_t refused = 0;   // placements that the rules must refuse: two different shards on one axis
  int64_t unplaced = 0;  // samples x meshes whose share ran only Replicate; always 0
  // Gaps. tests/known_gaps.txt gives the reasons.
  bool thinned = false;   // there were too many placements, so some combinations did not run
  bool fallback = false;  // the CPU has no kernel for the op, so its composition ran
  std::vector<std::string> failures;
  void Add(const Result& other);
};

Result SweepOp(Op op, const Options& options);

// Returns the values of the sample's inputs on one rank. They are deterministic.
std::vector<Tensor> SampleValues(const Sample& sample, uint64_t seed);

}  // namespace weft::sweep
