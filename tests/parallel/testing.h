// What tests of anything parallel share: chunks of a global tensor, the global tensor back from the ranks' chunks, one
// program on one rank and on many, and counts of a program's collectives.
//
//   Graph graph = Traced([] { ...; return std::vector<NamedValue>{{"y", y}}; });
//   ExpectSameOnRanks(graph, {{"dp", "tp"}, {2, 2}}, {{"x", x}});
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/base/tensor.h"
#include "weft/core/compile/runtime.h"
#include "weft/core/transforms/partition.h"
#include "weft/dist/group/local/local_group.h"

namespace weft::test {

using Values = std::map<std::string, Tensor>;  // global tensors by name

MeshShape MeshOf(const std::vector<int>& sizes);  // axes "x", "y", ...

// This rank's chunk: NaN in the padding; on Partial axes a term, so that the ranks' terms reduce to the value.
Tensor Chunk(const Tensor& global, const Sharding& s, const MeshShape& mesh, const Coords& coords);
// The global tensor that the ranks' chunks mean; throws Error where replicas differ or an element is held by nobody.
Tensor Assemble(const std::vector<Tensor>& chunks, const Shape& global, const Sharding& s, const MeshShape& mesh);

// Every placement of a tensor of two dims by R, S(0), S(1) and P on so many axes.
std::vector<Sharding> EveryPlacement(int axes);

// Standard normal values times 0.8, a function of the seed.
Tensor Draw(const Shape& shape, uint64_t seed, DType dtype = DType::kF64);
double LargestDifference(const Tensor& a, const Tensor& b);  // infinity where shapes differ or one alone is NaN

// Traces `body` with step = first_row = 0 for random ops. Grad's nodes may be made inside.
struct Traced {
  std::vector<NamedValue> outputs, writes{};
};
Graph Trace(const std::function<Traced()>& body, uint64_t seed = 7);

const KernelTable& KernelsOf(DeviceKind device);
// Programs of one rank run on a GPU where WEFT_TEST_DEVICE says cuda; all others run on the CPU.
DeviceKind DeviceUnderTest(const MeshShape& mesh);
// All CPU kernels and collectives, on every rank of the mesh.
using RankBody = std::function<void(const Runtime& runtime)>;
void OnRanks(const MeshShape& mesh, const RankBody& body);
// The same program on one rank: every axis has size 1, so placements mean nothing.
Values RunOneRank(const Graph& graph, const MeshShape& mesh, const Values& leaves,
                  const PartitionOptions& options = {});
// On all ranks, by Interpret; outputs and then writes are assembled from the ranks' chunks.
Values RunRanks(const Graph& graph, const MeshShape& mesh, const Values& leaves, PartitionOptions options = {});
// RunRanks equals RunOneRank within `tolerance` times the largest value.
void ExpectSameOnRanks(const Graph& graph, const MeshShape& mesh, const Values& leaves, double tolerance = 1e-12,
                       const PartitionOptions& options = {});

// How often each collective stands in the program: {"all_reduce", 2}. Local slices and masks are not collectives.
std::map<std::string, int> Collectives(const LocalProgram& program, std::optional<Phase> phase = {},
                                       std::optional<int> axis = {});
std::map<std::string, int> Collectives(const std::vector<Transition>& steps);
bool IsCollective(Op op);

}  // namespace weft::test
