// Checkpoints from and to a device whose work continues after the call that issued it: a device double, and a GPU if
// ctest selects one.
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <thread>

#include "checkpoint/device_cases.h"
#include "double/group_double.h"
#include "double/kernels_double.h"
#include "error_of.h"
#include "share.h"
#include "support/device_under_test.h"
#include "train/temp_folder.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/program/state.h"

namespace weft {
namespace {

using test::ErrorOf;
using test::Job;
using test::Layout;
using test::RankRun;
using testing_::OnGpu;

// Runs `body` on each rank of the layout. The double starts copies late, so that work that does not wait for them gives
// wrong results.
void OnDevice(Layout layout, const std::function<void(const Layout&, Context&, DeviceMesh&)>& body) {
  layout.device = DeviceKind::kCuda;
  if (OnGpu()) return testing_::OnMesh(layout, [&](Context& c, DeviceMesh& mesh) { body(layout, c, mesh); });
  test::OnDoubles(MeshOf(layout).num_ranks(), {.most_us = 20}, [&](test::DoubleRank& rank) {
    RegisterCpuKernels(rank.context.kernels(DeviceKind::kCpu));
    RegisterCollectives(rank.context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    test::RegisterDoubleKernels(rank.context);
    rank.device.set_beside_us(300);
    DeviceMesh mesh(rank.context, rank.groups, MeshOf(layout), rank.groups.kinds());
    body(layout, rank.context, mesh);
  });
}

// f64, so that evaluations on any two meshes differ only by the rounding of sums.
Job SmallJob() {
  return {.model = testing_::TinyLlama(), .precision = {DType::kF64, DType::kF64, DType::kF64}, .steps = 3};
}

class DeviceCheckpoint : public testing::Test {
 protected:
  testing_::TempFolder folder_;
};

TEST_F(DeviceCheckpoint, ASaveIsOfItsStepWhateverFollows) {
  int cases = 0;
  for (const Layout& layout : test::ShareOf(testing_::StreamLayouts())) {
    Job job = SmallJob();
    if (cases++ % 2) job.precision = {DType::kBF16, DType::kF32, DType::kF32};
    OnDevice(layout, [&](const Layout& l, Context& context, DeviceMesh& mesh) {
      test::ExpectASaveIsOfItsStep(job, l, context, mesh, folder_.Path(testing_::Describe(l)));
    });
  }
}

// A checkpoint saved in one layout is loaded in all others. Each rank's device gets the values that the host would get,
// and the loss is that of one rank of the CPU except for the rounding of f64 sums.
TEST_F(DeviceCheckpoint, AnyMeshLoadsAnyMeshs) {
  std::vector<Layout> layouts = testing_::StreamLayouts();
  layouts.insert(layouts.begin() + 1, {.tp = 4, .sequence_parallel = true});  // the last rank has none of the 6 heads
  for (size_t from : {size_t(0), layouts.size() - 1}) {
    std::string folder = folder_.Path(testing_::Describe(layouts[from]));
    OnDevice(layouts[from], [&](const Layout& l, Context& context, DeviceMesh& mesh) {
      test::ExpectASaveIsOfItsStep(SmallJob(), l, context, mesh, folder);
    });
    std::string checkpoint = StepFolder(folder + "/device", 1);
    double want = 0;
    testing_::OnMesh({}, [&](Context& context, DeviceMesh& mesh) {
      want = test::ExpectALoadIsTheHosts(SmallJob(), {}, context, mesh, checkpoint);
    });
    for (const Layout& layout : test::ShareOf(layouts))
      OnDevice(layout, [&](const Layout& l, Context& context, DeviceMesh& mesh) {
        double loss = test::ExpectALoadIsTheHosts(SmallJob(), l, context, mesh, checkpoint);
        EXPECT_NEAR(loss, want, 1e-9 * want) << testing_::Describe(l);
      });
  }
}

// ---- What only a double can be made to do. ----

// One rank with a double, after one step. It saves to `dir` on the stream that `hold` holds.
struct HeldSave {
  RankRun run;
  std::optional<SavedCheckpoint> saved;
  CheckpointSaver saver;
  test::Hold hold;

  HeldSave(const Job& job, const Layout& layout, Context& context, DeviceMesh& mesh, const std::string& dir)
      : run(job, layout, context, mesh),
        saver(run.state, mesh.World(), {.dir = dir, .saved = [this](const SavedCheckpoint& s) { saved = s; }}),
        hold(static_cast<test::DeviceDouble&>(run.state.device()).newest_stream()) {
    run.Step(1);
    EXPECT_EQ(saver.Start({.step = 1}), absl::OkStatus());
  }
};

void OnHeldSave(const std::string& dir, const std::function<void(HeldSave&)>& body) {
  if (OnGpu()) GTEST_SKIP() << "a GPU's streams cannot be held";
  Job job = SmallJob();
  OnDevice({.micro_batch = 2}, [&](const Layout& layout, Context& context, DeviceMesh& mesh) {
    HeldSave held(job, layout, context, mesh, dir);
    body(held);
  });
}

// A save runs after the work that was issued before it, however late that work starts.
TEST_F(DeviceCheckpoint, ASaveComesAfterTheWorkBeforeIt) {
  test::DeviceDouble device;
  State state({{"x"}, {1}}, {0}, device);
  Tensor values = state.Add("w", DType::kF32, {100}, {}, /*saved=*/true).local;
  std::unique_ptr<ProcessGroup> self = MakeSelfGroup("x", 0, DeviceKind::kCpu);
  CheckpointSaver saver(state, *self, {.dir = folder_.Path("c")});
  device.Post([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  device.Fill(values.data(), 0x41, values.bytes());
  EXPECT_EQ(saver.Start({.step = 1}), absl::OkStatus());
  saver.WaitForCopy();
  device.Fill(values.data(), 0, values.bytes());
  EXPECT_EQ(saver.Wait(), absl::OkStatus());
  std::string file = test::FilesOf(StepFolder(folder_.Path("c"), 1)).at("rank-00000.safetensors");
  EXPECT_TRUE(file.ends_with(std::string(values.bytes(), '\x41')));
}

// An evaluation and all micro-steps but the last finish before the copies have begun. Only the last one waits, and the
// reported stall is that wait.
TEST_F(DeviceCheckpoint, OnlyTheUpdateWaitsForTheCopies) {
  constexpr std::chrono::milliseconds kHeld{50};
  OnHeldSave(folder_.Path("c"), [&](HeldSave& held) {
    State before = test::OnHost(held.run.state);
    held.run.Fill(0, 0);
    held.run.runner->Eval();
    std::thread release;
    CheckpointSaver::Clock::duration waited{};
    int micro_steps = 0;
    held.run.before_update = [&] {
      held.run.state.device().Synchronize();  // waits for the earlier micro-steps
      micro_steps++;
      release = std::thread([&] {
        std::this_thread::sleep_for(kHeld);
        held.hold.Release();
      });
      waited = held.saver.WaitForCopy();
    };
    ASSERT_GT(held.run.options.micro_steps, 1);
    held.run.Step(2);
    release.join();
    EXPECT_EQ(micro_steps, 1);
    EXPECT_GE(waited, kHeld);
    EXPECT_EQ(held.saver.WaitForCopy().count(), 0) << "it has its copies";
    EXPECT_EQ(held.saver.Wait(), absl::OkStatus());
    ASSERT_TRUE(held.saved);
    EXPECT_GE(held.saved->stall, std::chrono::duration<double>(kHeld).count());
    EXPECT_GE(held.saved->seconds, std::chrono::duration<double>(kHeld).count());
    uint64_t bytes = 0;
    std::map<std::string, std::string> files = test::FilesOf(held.saved->folder);
    for (const auto& [name, text] : files) bytes += name == kManifestFile ? 0 : text.size();
    EXPECT_EQ(held.saved->bytes, bytes);
    State loaded = test::OnHost(before);
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(held.saved->folder);
    ASSERT_TRUE(checkpoint.ok() && checkpoint->Verify().ok());
    for (const auto& [name, e] : loaded.entries()) std::memset(e.local.data(), 0x55, e.local.bytes());
    EXPECT_EQ(checkpoint->Load(loaded), absl::OkStatus());
    EXPECT_EQ(test::Differing(test::BytesOf(loaded), test::BytesOf(before)), test::kNone);
  });
}

// Every wait throws the device's error, and no checkpoint is left.
TEST_F(DeviceCheckpoint, ADeviceThatFailsEndsTheSaveWithItsError) {
  OnHeldSave(folder_.Path("c"), [&](HeldSave& held) {
    auto& device = static_cast<StreamedDevice&>(held.run.state.device());
    device.SetFailure(std::make_exception_ptr(Error("the bus is gone")));
    held.hold.Release();
    EXPECT_EQ(ErrorOf([&] { held.saver.WaitForCopy(); }), "the bus is gone");
    EXPECT_EQ(ErrorOf([&] { held.saver.Wait().IgnoreError(); }), "the bus is gone");
    EXPECT_FALSE(held.saved);
    EXPECT_FALSE(std::filesystem::exists(StepFolder(folder_.Path("c"), 1)));
  });
}

// The other ranks get the error at once and do not wait for the failed rank.
TEST_F(DeviceCheckpoint, AFailureOfOneRanksDeviceIsToldToAll) {
  std::string error, told;
  OnDevice({.dp = 2, .fsdp = Fsdp::kFull}, [&](const Layout& layout, Context& context, DeviceMesh& mesh) {
    const Job job = SmallJob();
    RankRun run(job, layout, context, mesh);
    run.Step(1);
    mesh.set_timeout(std::chrono::minutes(10));
    CheckpointSaver saver(run.state, mesh.World(), {.dir = folder_.Path("c")});
    bool fails = context.rank() == 1;
    if (fails)
      static_cast<StreamedDevice&>(run.state.device()).SetFailure(std::make_exception_ptr(Error("the bus is gone")));
    EXPECT_EQ(saver.Start({.step = 1}), absl::OkStatus());
    if (fails)
      error = ErrorOf([&] { saver.Wait().IgnoreError(); });
    else
      told = saver.Wait().ToString();
  });
  EXPECT_EQ(error, "the bus is gone");
  EXPECT_NE(told.find("the bus is gone"), std::string::npos) << told;
}

// On a host that locks no memory, a save gives one note and the same files.
TEST_F(DeviceCheckpoint, WithoutLockedMemoryASaveIsTheSame) {
  if (OnGpu()) GTEST_SKIP() << "a GPU's host locks what it is asked for";
  for (int ranks : {1, 2}) {
    std::string said;
    OnDevice({.dp = ranks, .fsdp = ranks > 1 ? Fsdp::kFull : Fsdp::kNone},
             [&](const Layout& layout, Context& context, DeviceMesh& mesh) {
               auto& device = static_cast<test::DeviceDouble&>(context.device(DeviceKind::kCuda));
               if (context.rank() == ranks - 1) device.set_most_staging(4096);  // enough for the results of a step
               Notices notices(context.rank() == 0);
               notices.Follow([&](const std::string& text) { said += text + "\n"; });
               std::string folder = folder_.Path(fmt::format("{}", ranks));
               test::ExpectASaveIsOfItsStep(SmallJob(), layout, context, mesh, folder, &notices);
             });
    std::string begin = fmt::format("checkpoint.dir: for 1 of {} ranks the host does not lock ", ranks);
    EXPECT_TRUE(said.starts_with(begin) && said.find('\n') == said.size() - 1) << said;
  }
}

}  // namespace
}  // namespace weft
