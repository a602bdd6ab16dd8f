// The memory of attention beyond its operands and their gradients is linear in the length: forward, backward and twice
// backward, with every option, on CPUs and GPUs, on one rank and on the ranks of a mesh. Plans give the peak exactly,
// without a run. Some programs are run to show that they take no more than their plan says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ranges>

#include "attention/attention_program.h"
#include "heap_counter.h"
#include "weft/core/compile/executable.h"
#include "weft/core/compile/pipeline.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/plan_group.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/kernels/cuda/plan/planned_rows.h"

namespace weft::test {
namespace {

// Twice the memory for twice the length, and some of the constant tiles and paddings.
constexpr double kLaw = 2.1;
constexpr int64_t kLengths[] = {1024, 2048, 4096, 8192};

// The sizes for L keys.
struct Shapes {
  const char* name;
  AttentionSizes (*of)(int64_t L);
};
const Shapes kShapes[] = {
    {"self-attention", [](int64_t L) { return AttentionSizes{2, L, L, 4, 4, 32, 32}; }},
    {"grouped heads", [](int64_t L) { return AttentionSizes{2, L, L, 8, 2, 64, 64}; }},
    {"one KV head, wide values", [](int64_t L) { return AttentionSizes{2, L / 2, L, 8, 1, 16, 48}; }},
    {"more queries than keys", [](int64_t L) { return AttentionSizes{1, 2 * L, L, 8, 8, 16, 16}; }},
    {"one query", [](int64_t L) { return AttentionSizes{8, 1, L, 8, 4, 32, 32}; }},
};
// Twice backward plans thousands of steps, so it takes the last two types for the first shapes only.
constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF64, DType::kF16};

// A device to plan for. A plan for a GPU needs neither the GPU nor the CUDA library.
class Planner {
 public:
  explicit Planner(DeviceKind device, const MeshShape& mesh = {{"x"}, {1}}, Numerics numerics = {})
      : context_(0, mesh.num_ranks()),
        mesh_(context_, groups_, mesh, {device}),
        runtime_{&context_, &mesh_, mesh, mesh.CoordsOf(0), device} {
    context_.set_numerics(std::move(numerics));
    KernelTable& table = context_.kernels(device);
    if (device == DeviceKind::kCpu)
      RegisterCpuKernels(table);
    else
      cuda::AddPlannedRows(table);
    RegisterCollectives(table, device);
  }
  Plan PlanOf(const Graph& graph) const {
    LocalProgram local =
        Lower(graph, {.mesh = runtime_.mesh_shape, .kernels = &runtime_.kernels(), .natural = true}, "");
    return Compile(local, runtime_, "");
  }

 private:
  Context context_;
  PlanGroupFactory groups_;
  DeviceMesh mesh_;
  Runtime runtime_;
};

size_t OutputBytes(const Plan& plan) {
  size_t bytes = 0;
  for (const auto& [name, output] : plan.outputs)
    bytes += size_t(output.view.CapacityElements()) * SizeOf(output.view.dtype);
  return bytes;
}
// Returns the peak of what a plan needs beyond operands, which are outside of its arena, and gradients.
size_t BytesBeyond(const Plan& plan, AttentionPass pass) {
  return plan.arena_bytes - (pass == AttentionPass::kForward ? 0 : OutputBytes(plan));
}

// Says where a plan is fullest.
std::string Fullest(const Plan& plan) {
  if (plan.fullest >= plan.steps.size()) return "at the end";
  const Node& node = *plan.steps[plan.fullest].node;
  return fmt::format("{} -> {}", weft::Name(node.op), ToString(node.outputs[0].shape));
}

int checked = 0;

void CheckLaw(const Planner& planner, const AttentionOption& option, const Shapes& shapes, DType dtype,
              AttentionPass pass, const AttentionLeaves::Place& place = {}) {
  size_t last = 0;
  for (int64_t length : kLengths) {
    AttentionSizes sizes = shapes.of(length);
    sizes.dtype = dtype;
    AttentionProgram program(option, sizes, pass, place);
    Plan plan = planner.PlanOf(program.graph());
    size_t bytes = BytesBeyond(plan, pass);
    if (last > 0) {
      EXPECT_LE(double(bytes), kLaw * double(last)) << option.name << ", " << shapes.name << ", " << weft::Name(dtype)
                                                    << ", " << Name(pass) << " at " << length << ": " << Fullest(plan);
    }
    last = bytes;
    checked++;
  }
}

void CheckAll(DeviceKind device, AttentionPass pass, const Numerics& numerics = {}) {
  Planner planner(device, {{"x"}, {1}}, numerics);
  checked = 0;
  for (const Shapes& shapes : kShapes)
    for (DType dtype : kTypes) {
      bool rest = &shapes != kShapes && (dtype == DType::kF64 || dtype == DType::kF16);
      if (rest && pass == AttentionPass::kTwiceBackward) continue;
      for (const AttentionOption& option : AttentionOptions()) CheckLaw(planner, option, shapes, dtype, pass);
    }
  fmt::print("shown: attention {} on {}: the memory of {} plans is linear in the length\n", Name(pass),
             weft::Name(device), checked);
}

// On a GPU only the tests that run there are of use.
void SkipOnGpu() {
  if (DeviceUnderTest({{"x"}, {1}}) == DeviceKind::kCuda) GTEST_SKIP() << "plans need no GPU";
}

class SdpaMemory : public testing::TestWithParam<std::tuple<DeviceKind, AttentionPass>> {
 protected:
  void SetUp() override { SkipOnGpu(); }
};
class SdpaMemoryOf : public testing::Test {
 protected:
  void SetUp() override { SkipOnGpu(); }
};

TEST_P(SdpaMemory, IsLinearInTheLength) { CheckAll(std::get<0>(GetParam()), std::get<1>(GetParam())); }

INSTANTIATE_TEST_SUITE_P(All, SdpaMemory,
                         testing::Combine(testing::Values(DeviceKind::kCpu, DeviceKind::kCuda),
                                          testing::ValuesIn(kAttentionPasses)),
                         [](const auto& param) {
                           std::string name = fmt::format("{} {}", weft::Name(std::get<0>(param.param)),
                                                          Name(std::get<1>(param.param)));
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

// cuDNN's other gradient adds in any order. Its workspaces differ.
TEST_F(SdpaMemoryOf, GradientsInAnyOrderIsLinearToo) {
  Planner planner(DeviceKind::kCuda, {{"x"}, {1}}, {.deterministic = false});
  for (const Shapes& shapes : kShapes)
    for (const AttentionOption& option : AttentionOptions())
      CheckLaw(planner, option, shapes, DType::kBF16, AttentionPass::kBackward);
}

// Batch and heads over 2 x 2 ranks: a rank takes a quarter, unless a mask or bias is on all ranks.
TEST_F(SdpaMemoryOf, BatchAndHeadsIsShared) {
  const MeshShape mesh{{"x", "y"}, {2, 2}};
  Planner one(DeviceKind::kCpu), rank(DeviceKind::kCpu, mesh);
  auto place = [](const std::string& labels) {
    size_t b = labels.find('b'), h = labels.find_first_of("hg");
    return Sharding{b == std::string::npos ? Replicate() : Shard(int(b)),
                    h == std::string::npos ? Replicate() : Shard(int(h))};
  };
  for (const AttentionOption& option : AttentionOptions())
    for (AttentionPass pass : kAttentionPasses) {
      CheckLaw(rank, option, kShapes[1], DType::kF32, pass, place);
      AttentionSizes sizes = kShapes[1].of(kLengths[1]);
      sizes.dtype = DType::kF32;
      AttentionProgram whole(option, sizes, pass), sharded(option, sizes, pass, place);
      bool all_shared = true;
      for (const auto& [name, leaf] : sharded.leaves())
        all_shared &=
            leaf.shape.size() < 4 || (place(leaf.labels)[0] != Replicate() && place(leaf.labels)[1] != Replicate());
      if (!all_shared) continue;
      size_t of_one = BytesBeyond(one.PlanOf(whole.graph()), pass),
             of_rank = BytesBeyond(rank.PlanOf(sharded.graph()), pass);
      // A worker's sums of dk and dv for one head take as much on a rank.
      EXPECT_LE(double(of_rank), 0.35 * double(of_one)) << option.name << ", " << Name(pass);
    }
}

// A program bound to operands on a device, with bytes after its arena that no step may write.
class Guarded {
 public:
  Guarded(const AttentionProgram& program, const Runtime& runtime)
      : device_(runtime.memory()), values_(program.values(3)) {
    LocalProgram local = Lower(program.graph(), {.kernels = &runtime.kernels()}, "");
    Plan plan = Compile(local, runtime, "");
    arena_bytes_ = plan.arena_bytes;
    arena_ = device_.Allocate(arena_bytes_ + kGuard);
    device_.Fill(arena_->data(), kByte, arena_bytes_ + kGuard);
    Binder bind = [&](const std::string& name, const ValueInfo& info) {
      auto [at, is_new] = entries_.try_emplace(name);
      if (is_new)
        at->second = (values_.contains(name) ? values_.at(name) : Tensor::Zeros(info.dtype, info.shape)).To(device_);
      return at->second;
    };
    executable_.emplace(std::move(plan), runtime, bind, arena_);
  }
  void Run() {
    executable_->Run();
    device_.Synchronize();
  }
  size_t arena_bytes() const { return arena_bytes_; }
  bool IsIntact() const {
    std::vector<uint8_t> after(kGuard);
    device_.Copy(after.data(), static_cast<char*>(arena_->data()) + arena_bytes_, kGuard);
    device_.Synchronize();
    return std::ranges::all_of(after, [](uint8_t byte) { return byte == kByte; });
  }

  static constexpr size_t kGuard = size_t(1) << 20;

 private:
  static constexpr uint8_t kByte = 0xAB;
  DeviceRuntime& device_;
  test::Values values_, entries_;
  size_t arena_bytes_ = 0;
  BufferPtr arena_;
  std::optional<Executable> executable_;
};

// Runs a program three times, since a GPU records the third run. What it takes beyond its arena is measured by the
// heap on a CPU, and by the free memory on a GPU. There, libraries and recordings take some.
void CheckRun(const AttentionProgram& program, const Runtime& runtime) {
  bool gpu = runtime.device == DeviceKind::kCuda;
  DeviceRuntime& device = runtime.memory();
  device.Synchronize();
  Guarded guarded(program, runtime);
  device.Synchronize();
  size_t free = device.MemoryNow().free, buffers = CpuBuffersAllocated();
  RestartHeapPeak();
  for (int run = 0; run < 3; run++) guarded.Run();
  long heap = HeapPeak();
  size_t now = device.MemoryNow().free;
  EXPECT_TRUE(guarded.IsIntact());
  if (gpu) {
    EXPECT_LE(double(free) - double(now), double(size_t(64) << 20)) << "beyond an arena of " << guarded.arena_bytes();
  } else {
    EXPECT_EQ(CpuBuffersAllocated(), buffers);
    EXPECT_LE(heap, long(64) << 10) << "beyond an arena of " << guarded.arena_bytes();
  }
}

TEST(SdpaMemoryRun, TakesWhatItsPlanSays) {
  const MeshShape one{{"x"}, {1}};
  OnRanks(one, [&](const Runtime& runtime) {
    bool gpu = runtime.device == DeviceKind::kCuda;
    for (const AttentionOption& option : AttentionOptions())
      for (DType dtype : {DType::kF32, DType::kBF16})
        for (AttentionPass pass : kAttentionPasses) {
          int64_t length = gpu ? 1024 : 300;
          SCOPED_TRACE(fmt::format("{}, {}, {}", option.name, weft::Name(dtype), Name(pass)));
          CheckRun(AttentionProgram(option, {1, length, length, 8, 8, gpu ? 64 : 8, gpu ? 64 : 8, dtype}, pass),
                   runtime);
        }
  });
}

}  // namespace
}  // namespace weft::test
