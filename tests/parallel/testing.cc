#include "parallel/testing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "weft/core/base/shard.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ops/ops.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft::test {
namespace {

// Returns one rank's term of a value. Over the ranks of the Partial axes, the terms reduce to the value.
double Term(double value, const Sharding& s, const MeshShape& mesh, const Coords& coords, int64_t index) {
  for (int a = 0; a < s.num_axes(); a++) {
    if (s[a].kind != Placement::kPartial) continue;
    int k = mesh.sizes[size_t(a)], c = coords[size_t(a)], owner = int(index % k);
    if (s[a].reduce == ReduceOp::kSum) {
      // k - 1 ranks hold a shift, and the owner compensates for it. The shift is a nonlinear function of the value. If
      // operands had equal shifts or fixed fractions of their values, a sum that wrongly passes through max or mul
      // could stay hidden.
      double shift = 0.4 * std::sin(37.0 * value + double(index * 7 + a));
      value = c == owner ? value - shift * (k - 1) : shift;
    } else if (c != owner) {
      value += s[a].reduce == ReduceOp::kMax ? -1.0 - 0.1 * c : 1.0 + 0.1 * c;
    }
  }
  return value;
}

// Calls fn(global linear index, local linear index) for every element that this rank holds.
void ForEachHeld(const TensorView& view, const std::function<void(int64_t, int64_t)>& fn) {
  std::function<void(int, int64_t, int64_t)> walk = [&](int d, int64_t from, int64_t to) {
    if (d == view.rank) return fn(from, to);
    for (int64_t i = 0; i < view.dim(d).extent; i++)
      walk(d + 1, from * view.dim(d).global + view.dim(d).offset + i, to * view.dim(d).capacity + i);
  };
  walk(0, 0, 0);
}

double Reduce(double a, double b, ReduceOp op) {
  return op == ReduceOp::kSum ? a + b : op == ReduceOp::kMax ? std::max(a, b) : std::min(a, b);
}

// Returns the rank's coordinates on the Replicate axes as one number. Ranks that differ only there hold replicas.
int ReplicaOf(const Sharding& s, const MeshShape& mesh, const Coords& coords) {
  int replica = 0;
  for (int a = 0; a < s.num_axes(); a++)
    if (s[a].kind == Placement::kReplicate) replica = replica * mesh.sizes[size_t(a)] + coords[size_t(a)];
  return replica;
}

}  // namespace

MeshShape MeshOf(const std::vector<int>& sizes) {
  MeshShape mesh;
  for (size_t i = 0; i < sizes.size(); i++) mesh.names.push_back(std::string(1, char('x' + i)));
  mesh.sizes = sizes;
  return mesh;
}

Tensor Chunk(const Tensor& global, const Sharding& s, const MeshShape& mesh, const Coords& coords) {
  Shape shape = ChunkShape(global.shape(), s, mesh);
  TensorView view = MakeView(nullptr, global.dtype(), global.shape(), s, mesh, coords);
  double padding = IsFloating(global.dtype()) ? std::nan("") : 0;
  std::vector<double> values = global.ToDoubles(), mine(size_t(NumElements(shape)), padding);
  ForEachHeld(view,
              [&](int64_t from, int64_t to) { mine[size_t(to)] = Term(values[size_t(from)], s, mesh, coords, from); });
  return Tensor::FromDoubles(mine, global.dtype(), shape);
}

Tensor Assemble(const std::vector<Tensor>& chunks, const Shape& global, const Sharding& s, const MeshShape& mesh) {
  ReduceOp op = ReduceOp::kSum;
  for (int a = 0; a < s.num_axes(); a++)
    if (s[a].kind == Placement::kPartial) op = s[a].reduce;
  std::map<int, std::vector<std::optional<double>>> replicas;
  for (int r = 0; r < mesh.num_ranks(); r++) {
    Coords coords = mesh.CoordsOf(r);
    auto& values = replicas[ReplicaOf(s, mesh, coords)];
    values.resize(size_t(NumElements(global)));
    std::vector<double> mine = chunks[size_t(r)].ToDoubles();
    ForEachHeld(MakeView(nullptr, DType::kF64, global, s, mesh, coords), [&](int64_t at, int64_t from) {
      auto& slot = values[size_t(at)];
      slot = slot ? Reduce(*slot, mine[size_t(from)], op) : mine[size_t(from)];
    });
  }
  std::vector<double> result;
  for (size_t i = 0; i < size_t(NumElements(global)); i++) {
    for (auto& [replica, values] : replicas) {
      double first = *replicas.begin()->second[i];
      WEFT_CHECK(values[i], fmt::format("element {} is held by no rank", i));
      WEFT_CHECK(*values[i] == first || (std::isnan(*values[i]) && std::isnan(first)),
                 fmt::format("element {}: replicas hold {:.17g} and {:.17g}", i, first, *values[i]));
    }
    result.push_back(*replicas.begin()->second[i]);
  }
  return Tensor::FromDoubles(result, chunks[0].dtype(), global);
}

std::vector<Sharding> EveryPlacement(int axes) {
  const Placement one[] = {Replicate(), Shard(0), Shard(1), Partial()};
  std::vector<Sharding> all;
  for (int code = 0; code < 1 << 2 * axes; code++) {
    Sharding s(axes);
    for (int a = 0; a < axes; a++) s.Set(a, one[code >> 2 * a & 3]);
    all.push_back(s);
  }
  return all;
}

Tensor Draw(const Shape& shape, uint64_t seed, DType dtype) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(size_t(NumElements(shape)));
  for (double& v : values) v = 0.8 * normal(rng);
  return Tensor::FromDoubles(values, dtype, shape);
}

double LargestDifference(const Tensor& a, const Tensor& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.shape() != b.shape()) return kInfinity;
  std::vector<double> x = a.ToDoubles(), y = b.ToDoubles();
  double largest = 0;
  for (size_t i = 0; i < x.size(); i++) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    double d = std::abs(x[i] - y[i]);
    largest = std::max(largest, std::isnan(d) ? kInfinity : d);
  }
  return largest;
}

Graph Trace(const std::function<Traced()>& body, uint64_t seed, RandomPhase phase) {
  TraceBuilder trace({.seed = seed, .random_phase = phase});
  BuilderScope scope(trace);
  trace.step = Leaf("step", DType::kI64, {});
  trace.first_row = Leaf("first_row", DType::kI64, {});
  Traced traced = body();
  Graph graph = trace.Finish(std::move(traced.outputs), std::move(traced.writes));
  trace.step = trace.first_row = {};
  Verify(graph);
  return RemoveDead(graph);
}

void OnRanks(const MeshShape& shape, const RankBody& body, const Numerics& numerics) {
  weft::RunRanks(shape.num_ranks(), [&](Context& context, GroupFactory& groups) {
    context.set_numerics(numerics);
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, shape);
    DeviceKind device = DeviceUnderTest(shape);
    if (device == DeviceKind::kCuda)
      if (absl::Status s = OpenCuda(context, 0); !s.ok()) throw Error(std::string(s.message()));
    body({&context, &mesh, shape, mesh.coords(), device});
  });
}

namespace {
const Tensor& At(const Values& leaves, const std::string& name) {
  static const Tensor zero = Tensor::Zeros(DType::kI64, {});
  if (auto it = leaves.find(name); it != leaves.end()) return it->second;
  WEFT_CHECK(name == "step" || name == "first_row", "no value for leaf " + name);
  return zero;
}
}  // namespace

Values RunOneRank(const Graph& graph, const MeshShape& mesh, const Values& leaves, const PartitionOptions& options,
                  const Numerics& numerics) {
  PartitionOptions one = options;
  one.mesh = {mesh.names, std::vector<int>(mesh.sizes.size(), 1)};
  return RunRanks(graph, one.mesh, leaves, one, numerics);
}

const KernelTable& KernelsOf(DeviceKind device) {
  auto make = [](DeviceKind kind) {
    auto table = std::make_unique<KernelTable>();
    if (kind == DeviceKind::kCpu)
      RegisterCpuKernels(*table);
    else if (absl::Status s = OpenCudaKernels(*table); !s.ok())
      throw Error(std::string(s.message()));
    return table;
  };
  static const std::unique_ptr<KernelTable> cpu = make(DeviceKind::kCpu);
  if (device == DeviceKind::kCpu) return *cpu;
  static const std::unique_ptr<KernelTable> cuda = make(DeviceKind::kCuda);
  return *cuda;
}

DeviceKind DeviceUnderTest(const MeshShape& mesh) {
  const char* name = std::getenv("WEFT_TEST_DEVICE");
  bool cuda = name && std::string_view(name) == Name(DeviceKind::kCuda) && mesh.num_ranks() == 1;
  return cuda ? DeviceKind::kCuda : DeviceKind::kCpu;
}

Values RunRanks(const Graph& graph, const MeshShape& mesh, const Values& leaves, PartitionOptions options,
                const Numerics& numerics) {
  options.mesh = mesh;
  options.kernels = &KernelsOf(DeviceUnderTest(mesh));
  LocalProgram local = Partition(graph, options);
  Verify(local.graph);
  std::map<std::string, std::vector<Tensor>> chunks;
  for (auto* list : {&local.graph.outputs, &local.graph.writes})
    for (const NamedValue& named : *list) chunks[named.name].resize(size_t(mesh.num_ranks()));
  auto body = [&](const Runtime& runtime) {
    size_t rank = size_t(runtime.context->rank());
    Values entries;
    Binder bind = [&](const std::string& name, const ValueInfo& info) {
      bool only_written = chunks.contains(name) && !leaves.contains(name);
      DeviceRuntime& device = runtime.memory();
      if (only_written) return entries.try_emplace(name, Tensor::Zeros(info.dtype, info.shape, device)).first->second;
      if (!entries.contains(name))
        entries[name] = Chunk(At(leaves, name), info.sharding, mesh, runtime.coords).To(device);
      return entries[name];
    };
    for (auto& [name, value] : Interpret(local, runtime, bind, {.poison = true}))
      chunks.at(name)[rank] = value.To(CpuRuntime());
    for (const NamedValue& write : local.graph.writes)
      chunks.at(write.name)[rank] = entries.at(write.name).To(CpuRuntime());
  };
  OnRanks(mesh, body, numerics);
  Values result;
  for (auto* list : {&local.graph.outputs, &local.graph.writes})
    for (const NamedValue& named : *list) {
      const ValueInfo& info = named.value.node().outputs[size_t(named.value.index())];
      result[named.name] = Assemble(chunks.at(named.name), info.global, info.sharding, mesh);
    }
  return result;
}

void ExpectSameOnRanks(const Graph& graph, const MeshShape& mesh, const Values& leaves, double tolerance,
                       const PartitionOptions& options) {
  Values want = RunOneRank(graph, mesh, leaves, options), got = RunRanks(graph, mesh, leaves, options);
  for (auto& [name, value] : want) {
    double scale = 1;
    for (double v : value.ToDoubles())
      if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
    EXPECT_LE(LargestDifference(got.at(name), value), tolerance * scale) << name << " on " << ToString(mesh);
  }
}

std::map<std::string, int> Collectives(const LocalProgram& program, std::optional<Phase> phase,
                                       std::optional<int> axis) {
  std::map<std::string, int> counts;
  for (const auto& node : program.graph.nodes)
    if (IsCollective(node->op) && (!phase || node->phase == *phase) && (!axis || node->attrs.Int("axis") == *axis))
      counts[Name(node->op)]++;
  return counts;
}

std::map<std::string, int> Collectives(const std::vector<Transition>& steps) {
  std::map<std::string, int> counts;
  for (const Transition& t : steps)
    if (IsCollective(t.op)) counts[Name(t.op)]++;
  return counts;
}

}  // namespace weft::test
