// The op sweep: every op, every placement of its operands, on several meshes of in-process ranks, forward and backward,
// against one rank. No code per op: all of it comes from the op's record and samples.
#pragma once
#include <string>
#include <vector>

#include "weft/core/ir/graph.h"
#include "weft/core/ir/record.h"

namespace weft::sweep {

struct Options {
  const OpTable* ops = nullptr;            // rules to test; null: the real ones
  void (*damage)(Graph& local) = nullptr;  // a change to each rank's program, as a broken planner would make it
  std::vector<std::vector<int>> meshes = {{2, 2}, {2}, {3}, {4}};
  bool backward = true;
  size_t share = 1;  // run each share-th placement, from one that differs by op, sample and mesh
};

struct Result {
  int64_t cases = 0;     // placements run on a mesh (each compared on every rank)
  int64_t runs = 0;      // cases x ranks
  int64_t refused = 0;   // placements that the rules refuse (two different shards on one axis), as they must
  int64_t unplaced = 0;  // samples x meshes of which a share ran no placement but Replicate: always 0
  // What is left out; tests/known_gaps.txt has the reasons.
  int64_t composed = 0;   // placements whose backward is refused by the composition that it goes through
  bool thinned = false;   // too many placements: some combinations were not run
  bool fallback = false;  // the CPU has no kernel for the op: what ran is its composition
  std::vector<std::string> failures;
  void Add(const Result& other);
};

Result SweepOp(Op op, const Options& options);

// One rank, f64: the values of the sample's inputs, deterministic.
std::vector<Tensor> SampleValues(const Sample& sample, uint64_t seed);

}  // namespace weft::sweep
