#include "support/checkpoint_testing.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/config/model_of.h"
#include "weft/train/loop/trainer.h"

namespace weft::testing_ {

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

absl::StatusOr<Config> CheckpointTest::Load(const Words& overrides) const {
  absl::StatusOr<Config> config = LoadConfig(path_, overrides);
  if (!config.ok()) return config.status();
  if (absl::Status s = Resolve(*config, int(config->mesh.ranks())); !s.ok()) return s;
  if (absl::Status s = ResolveVocab(*config, 256); !s.ok()) return s;
  return config;
}

absl::Status CheckpointTest::Train(const Words& overrides, std::optional<int64_t> pieces) const {
  absl::StatusOr<Config> config = Load(overrides);
  if (!config.ok()) return config.status();
  absl::StatusOr<Dataset> data = Dataset::Load(*config);
  if (!data.ok()) return data.status();
  std::vector<absl::Status> statuses(size_t(config->mesh.ranks()));
  RunRanks(int(statuses.size()), [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, MeshOf(*config));
    StopGate gate;
    if (pieces) gate.Release(*pieces, "SIGTERM");
    statuses[size_t(context.rank())] = Trainer(*config, *data, context, mesh, DeviceKind::kCpu, {.stop = &gate}).Run();
  });
  for (const absl::Status& status : statuses) EXPECT_EQ(status, statuses[0]);
  return statuses[0];
}

std::map<int, std::pair<double, double>> CheckpointTest::Losses(const Words& overrides) const {
  std::filesystem::remove(log_);
  absl::Status status = Train(overrides);
  EXPECT_TRUE(status.ok()) << status;
  std::map<int, std::pair<double, double>> losses;
  for (const nlohmann::json& e : Events())
    if (e["event"] == "step" && e["loss"].is_number())
      losses[e["step"]] = {e["loss"], e["grad_norm"].is_number() ? double(e["grad_norm"]) : -1};
  return losses;
}

std::vector<nlohmann::json> CheckpointTest::Events() const {
  std::vector<nlohmann::json> events;
  std::ifstream file(log_);
  for (std::string line; std::getline(file, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

std::vector<std::string> CheckpointTest::StepsAndEvals() const {
  std::vector<std::string> records;
  for (nlohmann::json e : Events()) {
    if (e["event"] != "step" && e["event"] != "eval") continue;
    for (const char* measured : {"ms", "tokens_per_s", "peak_bytes"}) e.erase(measured);
    records.push_back(e.dump());
  }
  return records;
}

std::string CheckpointTest::LastEvent() const { return Events().back()["event"]; }

Words CheckpointTest::SaveTo(const std::string& dir) const { return {"checkpoint.dir=" + folder_.Path(dir)}; }

Words CheckpointTest::From(const std::string& checkpoint) const {
  return {"checkpoint.resume=" + folder_.Path(checkpoint)};
}

Words Mesh(int dp, int tp) { return {fmt::format("mesh.dp={}", dp), fmt::format("mesh.tp={}", tp)}; }

std::map<std::string, std::string> TensorsOf(const std::string& folder) {
  absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::map<std::string, std::string> tensors;
  if (!checkpoint.ok()) return tensors;
  for (const auto& [name, t] : checkpoint->manifest().tensors) {
    std::string bytes(size_t(NumElements(t.shape)) * SizeOf(t.dtype), '\0');
    Box whole{Shape(t.shape.size(), 0), t.shape};
    checkpoint->Read(name, {whole, t.dtype, reinterpret_cast<std::byte*>(bytes.data()), RowMajor(t.shape)});
    tensors[name] = bytes;
  }
  return tensors;
}

}  // namespace weft::testing_
