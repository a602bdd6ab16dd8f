// Laws of checkpoints from and to a device. They are tested on a device double, a GPU that ranks share, and a GPU per
// rank.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/rank_run.h"
#include "weft/core/base/box.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/saver.h"

namespace weft::test {

using testing_::Job;
using testing_::Layout;
using testing_::RankRun;

inline const std::vector<std::string> kNone;

// Returns the current saved entries of a state, on the host. Padding, which is undefined, becomes 0.
inline State OnHost(const State& state) {
  State host(state.mesh(), state.coords());
  for (const auto& [name, e] : state.entries()) {
    if (!e.saved) continue;
    Tensor now = e.local.To(CpuRuntime());
    Tensor copy = host.Add(name, now.dtype(), e.global, e.sharding, /*saved=*/true).local;
    std::optional<Box> held = HeldBox(e.global, e.sharding, state.mesh(), state.coords());
    auto data = [&](const Tensor& t) {
      return BoxData{*held, t.dtype(), const_cast<std::byte*>(t.as<std::byte>()), RowMajor(t.shape())};
    };
    if (held) CopyMeeting(data(now), data(copy));
  }
  return host;
}
inline std::map<std::string, std::string> BytesOf(const State& host) {
  std::map<std::string, std::string> bytes;
  for (const auto& [name, e] : host.entries())
    if (e.saved) bytes[name] = std::string(e.local.as<char>(), e.local.bytes());
  return bytes;
}

// Returns the names that do not have the same bytes in both.
inline std::vector<std::string> Differing(const std::map<std::string, std::string>& a,
                                          const std::map<std::string, std::string>& b) {
  std::set<std::string> names;
  for (const auto& [of, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    for (const auto& [name, bytes] : *of)
      if (auto it = other->find(name); it == other->end() || it->second != bytes) names.insert(name);
  return {names.begin(), names.end()};
}

inline std::map<std::string, std::string> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = std::string(std::istreambuf_iterator<char>(file), {});
  }
  return files;
}

// A step is saved while the next two steps run. The files must equal those of a host copy that was made before these
// steps. Leaves the checkpoint in folder/device.
inline void ExpectASaveIsOfItsStep(const Job& job, const Layout& layout, Context& context, DeviceMesh& mesh,
                                   const std::string& folder, Notices* notices = nullptr) {
  RankRun run(job, layout, context, mesh);
  run.Step(1);
  State before = OnHost(run.state);
  CheckpointSaver saver(run.state, mesh.World(), {.dir = folder + "/device", .notices = notices});
  EXPECT_EQ(saver.Start({.step = 1}), absl::OkStatus());
  run.before_update = [&] { saver.WaitForCopy(); };
  for (int step : {2, 3}) run.Step(step);
  EXPECT_EQ(saver.Wait(), absl::OkStatus());
  EXPECT_NE(Differing(BytesOf(OnHost(run.state)), BytesOf(before)), kNone) << "the steps have changed nothing";
  CheckpointSaver host(before, mesh.World(), {.dir = folder + "/host"});
  EXPECT_EQ(host.Start({.step = 1}), absl::OkStatus());
  EXPECT_EQ(host.Wait(), absl::OkStatus());
  if (context.rank() != 0) return;
  EXPECT_EQ(Differing(FilesOf(StepFolder(folder + "/device", 1)), FilesOf(StepFolder(folder + "/host", 1))), kNone);
}

// A device must load the same values from a checkpoint as the host in the same layout. Returns the mean loss of an
// evaluation.
inline double ExpectALoadIsTheHosts(const Job& job, const Layout& layout, Context& context, DeviceMesh& mesh,
                                    const std::string& checkpoint) {
  absl::StatusOr<Checkpoint> from = Checkpoint::Open(checkpoint);
  WEFT_CHECK(from.ok(), from.status().ToString());
  RankRun run(job, layout, context, mesh);
  State host(mesh.shape(), mesh.coords());
  run.training.AddEntries(host);
  EXPECT_EQ(from->Load(run.state), absl::OkStatus());
  EXPECT_EQ(from->Load(host), absl::OkStatus());
  EXPECT_EQ(Differing(BytesOf(OnHost(run.state)), BytesOf(host)), kNone) << testing_::Describe(layout);
  run.training.sharded().RefreshCopies(run.state, run.runtime);
  double sum = 0, count = 0;
  for (int j = 0; j < run.options.micro_steps; j++) {
    run.Fill(0, j);
    auto [micro_sum, micro_count] = run.runner->Eval();
    sum += micro_sum;
    count += micro_count;
  }
  return sum / count;
}

}  // namespace weft::test
