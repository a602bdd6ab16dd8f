// The cost of a checkpoint for one rank: checkpoint_bench FOLDER [GIB [cuda]]. Saves and loads a state of GIB GiB (1 by
// default), half of it in tensors of 64 MiB and half in tensors of 1 MiB. Prints a JSON line for each part, with the
// median and the extremes of its runs in GB/s: the checksum, the copies that training may wait for, the same copies to
// memory that the host does not lock (if the device distinguishes the two), writing, verifying and loading.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "weft/core/base/error.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/saver.h"
#include "weft/train/io/crc32c.h"

namespace weft {
namespace {

constexpr int kRuns = 7;

double Seconds(const std::function<void()>& fn) {
  auto begin = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Print(const char* part, size_t bytes, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  auto rate = [&](double s) { return double(bytes) / s / 1e9; };
  fmt::print("{{\"part\":\"{}\",\"bytes\":{},\"runs\":{},\"gb_per_s\":{:.2f},\"least\":{:.2f},\"most\":{:.2f}}}\n",
             part, bytes, seconds.size(), rate(seconds[seconds.size() / 2]), rate(seconds.back()),
             rate(seconds.front()));
}
void Time(const char* part, size_t bytes, const std::function<void()>& fn) {
  fn();  // maps the memory
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; i++) seconds.push_back(Seconds(fn));
  Print(part, bytes, std::move(seconds));
}

void Check(const absl::Status& status) {
  if (!status.ok()) Fail(std::string(status.message()));
}

void Fill(State& state, size_t bytes) {
  constexpr int64_t kLarge = 64 << 20, kSmall = 1 << 20;
  int64_t left = int64_t(bytes), count = 0;
  while (left > 0) {
    int64_t size = left > int64_t(bytes) / 2 ? kLarge : kSmall;
    left -= size;
    state.Add(fmt::format("w{:06}", count++), DType::kF32, {size / int64_t(sizeof(float)) / 1024, 1024}, {}, true);
  }
}

void Bench(const std::string& folder, size_t bytes, DeviceRuntime& device) {
  State state({{"x"}, {1}}, {0}, device);
  Fill(state, bytes);
  bytes = 0;
  for (const auto& [name, e] : state.entries()) bytes += e.local.bytes();
  std::unique_ptr<ProcessGroup> self = MakeSelfGroup("x", 0, DeviceKind::kCpu);
  std::vector<std::byte> text(size_t(256) << 20, std::byte(7));
  Time("checksum", text.size(), [&] { Crc32c(text); });
  Time("checksum in the cache", size_t(1) << 15, [&] { Crc32c(std::span(text).first(size_t(1) << 15)); });
  {
    std::unique_ptr<Snapshot> snapshot;
    Print("allocation", bytes, {Seconds([&] { snapshot = std::make_unique<Snapshot>(state, 0); })});
    auto copy = [&] {
      snapshot->Take();
      snapshot->WaitForCopy();
    };
    Time(snapshot->staged() ? "copy" : "copy, as the host locks no memory", bytes, copy);
  }
  const Tensor& first = state.entries().begin()->second.local;
  BufferPtr plain = AllocateCpu(first.bytes());
  Time("copy to ordinary memory", first.bytes(), [&] {
    device.Copy(plain->data(), first.data(), first.bytes());
    device.Synchronize();
  });
  CheckpointSaver saver(state, *self, {.dir = folder});
  Time("save", bytes, [&] {
    Check(saver.Start({.step = 1}));
    Check(saver.Wait());
  });
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(StepFolder(folder, 1));
  Check(checkpoint.status());
  Time("verify", bytes, [&] { Check(checkpoint->Verify()); });
  Time("load", bytes, [&] { Check(checkpoint->Load(state)); });
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) try {
  using namespace weft;
  bool cuda = argc > 3 && std::string_view(argv[3]) == "cuda";
  if (argc < 2 || (argc > 3 && !cuda)) {
    fmt::print(stderr, "usage: checkpoint_bench FOLDER [GIB [cuda]]\n");
    return 2;
  }
  auto bytes = size_t((argc > 2 ? std::atof(argv[2]) : 1) * double(size_t(1) << 30));
  Context context(0, 1);
  if (cuda) Check(OpenCuda(context, 0));
  Bench(argv[1], bytes, context.device(cuda ? DeviceKind::kCuda : DeviceKind::kCpu));
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "checkpoint_bench: {}\n", e.what());
  return 1;
}
