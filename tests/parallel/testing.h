// Helpers for tests of parallel programs: chunks of a global tensor, the global tensor assembled from the ranks'
// chunks, one program on one and on many ranks, and counts of a program's collectives.
//
//   Graph graph = Traced([] { ...; return std::vector<NamedValue>{{"y", y}}; });
//   ExpectSameOnRanks(graph, {{"dp", "tp"}, {2, 2}}, {{"x", x}});
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/base/rng.h"
#include "weft/core/base/tensor.h"
#include "weft/core/compile/runtime.h"
#include "weft/core/transforms/partition.h"
#include "weft/dist/group/local/local_group.h"

namespace weft::test {

using Values = std::map<std::string, Tensor>;  // global tensors by name

MeshShape MeshOf(const std::vector<int>& sizes);  // axes "x", "y", ...

// Returns this rank's chunk. Padding is NaN. On Partial axes the chunk is a term, and the ranks' terms reduce to the
// value.
Tensor Chunk(const Tensor& global, const Sharding& s, const MeshShape& mesh, const Coords& coords);
// Returns the global tensor of the ranks' chunks. Throws Error if replicas differ or no rank holds an element.
Tensor Assemble(const std::vector<Tensor>& chunks, const Shape& global, const Sharding& s, const MeshShape& mesh);

// Returns every placement of a tensor of two dims by R, S(0), S(1) and P on this many axes.
std::vector<Sharding> EveryPlacement(int axes);

// Returns standard normal values times 0.8, as a function of the seed.
Tensor Draw(const Shape& shape, uint64_t seed, DType dtype = DType::kF64);
// Returns infinity if the shapes differ or only one element of a pair is NaN.
double LargestDifference(const Tensor& a, const Tensor& b);

// Traces `body` with step = first_row = 0 for random ops. `body` may call Grad.
struct Traced {
  std::vector<NamedValue> outputs, writes{};
};
Graph Trace(const std::function<Traced()>& body, uint64_t seed = 7, RandomPhase phase = RandomPhase::kTrain);

const KernelTable& KernelsOf(DeviceKind device);
// Returns the device for a program on the mesh. Programs of one rank run on a GPU if WEFT_TEST_DEVICE is cuda. All
// others run on the CPU.
DeviceKind DeviceUnderTest(const MeshShape& mesh);
// Runs the body on every rank of the mesh, with all CPU kernels and collectives.
using RankBody = std::function<void(const Runtime& runtime)>;
void OnRanks(const MeshShape& mesh, const RankBody& body, const Numerics& numerics = {});
// Runs the program on one rank: every axis has size 1, so placements have no effect.
Values RunOneRank(const Graph& graph, const MeshShape& mesh, const Values& leaves, const PartitionOptions& options = {},
                  const Numerics& numerics = {});
// Interprets the program on all ranks. Outputs and then writes are assembled from the ranks' chunks.
Values RunRanks(const Graph& graph, const MeshShape& mesh, const Values& leaves, PartitionOptions options = {},
                const Numerics& numerics = {});
// Checks that RunRanks equals RunOneRank within `tolerance` times the largest value.
void ExpectSameOnRanks(const Graph& graph, const MeshShape& mesh, const Values& leaves, double tolerance = 1e-12,
                       const PartitionOptions& options = {});

// Returns how often the program contains each collective: {"all_reduce", 2}. Local slices and masks are not
// collectives.
std::map<std::string, int> Collectives(const LocalProgram& program, std::optional<Phase> phase = {},
                                       std::optional<int> axis = {});
std::map<std::string, int> Collectives(const std::vector<Transition>& steps);

}  // namespace weft::test
