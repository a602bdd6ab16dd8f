// Training runs in process that save and resume: one YAML file, and arguments that override it.
#pragma once
#include <absl/status/statusor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokens/data_testing.h"
#include "weft/train/config/config.h"

namespace weft::testing_ {

using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b);

std::string ReadFile(const std::string& path);

// A model that no mesh divides: 257 kinds of token, 3 heads of 2, 5 sequences; dropout, so that random numbers count.
class CheckpointTest : public testing::Test {
 protected:
  absl::StatusOr<Config> Load(const Words& overrides) const;
  // The answer of all ranks, which is one. They stop after `pieces` steps and batches of evaluations where it is given.
  absl::Status Train(const Words& overrides, std::optional<int64_t> pieces = {}) const;
  // Losses and norms by step, of one run whose log is new.
  std::map<int, std::pair<double, double>> Losses(const Words& overrides) const;
  // The records of the log.
  std::vector<nlohmann::json> Events() const;
  // The records of the log but for what is measured, those of steps and evaluations in order.
  std::vector<std::string> StepsAndEvals() const;
  std::string LastEvent() const;
  Words SaveTo(const std::string& dir) const;
  Words From(const std::string& checkpoint) const;

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

Words Mesh(int dp, int tp);

// The bytes of every tensor of a checkpoint, by name; whole, whatever the mesh that saved it.
std::map<std::string, std::string> TensorsOf(const std::string& folder);

}  // namespace weft::testing_
