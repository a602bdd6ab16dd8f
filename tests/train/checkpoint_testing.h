// Training runs in process that save and resume: one YAML file, and arguments that override it.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tokens/data_testing.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/config/model_of.h"
#include "weft/train/loop/trainer.h"

namespace weft::testing_ {

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

// A model that no mesh divides: 257 kinds of token, 3 heads of 2, 5 sequences; dropout, so that random numbers count.
class CheckpointTest : public testing::Test {
 protected:
  absl::StatusOr<Config> Load(const Words& overrides) const {
    absl::StatusOr<Config> config = LoadConfig(path_, overrides);
    if (!config.ok()) return config.status();
    if (absl::Status s = Resolve(*config, int(config->mesh.ranks())); !s.ok()) return s;
    if (absl::Status s = ResolveVocab(*config, 256); !s.ok()) return s;
    return config;
  }
  // The answer of all ranks, which is one. They stop after `pieces` steps and batches of evaluations where it is given.
  absl::Status Train(const Words& overrides, std::optional<int64_t> pieces = {}) const {
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
      statuses[size_t(context.rank())] =
          Trainer(*config, *data, context, mesh, DeviceKind::kCpu, {.stop = &gate}).Run();
    });
    for (const absl::Status& status : statuses) EXPECT_EQ(status, statuses[0]);
    return statuses[0];
  }
  // Losses and norms by step, of one run whose log is new.
  std::map<int, std::pair<double, double>> Losses(const Words& overrides) const {
    std::filesystem::remove(log_);
    absl::Status status = Train(overrides);
    EXPECT_TRUE(status.ok()) << status;
    std::map<int, std::pair<double, double>> losses;
    for (const nlohmann::json& e : Events())
      if (e["event"] == "step" && e["loss"].is_number())
        losses[e["step"]] = {e["loss"], e["grad_norm"].is_number() ? double(e["grad_norm"]) : -1};
    return losses;
  }
  // The records of the log.
  std::vector<nlohmann::json> Events() const {
    std::vector<nlohmann::json> events;
    std::ifstream file(log_);
    for (std::string line; std::getline(file, line);) events.push_back(nlohmann::json::parse(line));
    return events;
  }
  // The records of the log but for what is measured, those of steps and evaluations in order.
  std::vector<std::string> StepsAndEvals() const {
    std::vector<std::string> records;
    for (nlohmann::json e : Events()) {
      if (e["event"] != "step" && e["event"] != "eval") continue;
      for (const char* measured : {"ms", "tokens_per_s", "peak_bytes"}) e.erase(measured);
      records.push_back(e.dump());
    }
    return records;
  }
  std::string LastEvent() const { return Events().back()["event"]; }
  Words SaveTo(const std::string& dir) const { return {"checkpoint.dir=" + folder_.Path(dir)}; }
  Words From(const std::string& checkpoint) const { return {"checkpoint.resume=" + folder_.Path(checkpoint)}; }

  TempFolder folder_;
  std::string log_ = folder_.Path("x.jsonl");
  std::string path_ = folder_.Write("x.yaml",
                                    "model: {family: llama, layers: 2, heads: 3, dim: 6, ffn: 7, context: 8, vocab: "
                                    "257, dropout: 0.1}\n"
                                    "data: {train: " +
                                        folder_.Write("a.txt", Letters(700)) +
                                        "}\n"
                                        "train: {steps: 6, global_batch: 5}\n"
                                        "log: {jsonl: " +
                                        log_ + "}\n");
};

inline Words Mesh(int dp, int tp) { return {fmt::format("mesh.dp={}", dp), fmt::format("mesh.tp={}", tp)}; }

// The bytes of every tensor of a checkpoint, by name; whole, whatever the mesh that saved it.
inline std::map<std::string, std::string> TensorsOf(const std::string& folder) {
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
