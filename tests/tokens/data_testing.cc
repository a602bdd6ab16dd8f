#include "tokens/data_testing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace weft::testing_ {

Config MakeConfig(const std::string& train, const std::vector<std::string>& overrides) {
  std::string yaml =
      "model: {family: gpt2, layers: 1, heads: 1, dim: 4, context: 8}\n"
      "train: {steps: 1, global_batch: 12}\ndata: {train: '" +
      train + "'}\n";
  absl::StatusOr<Config> config = ParseConfig(yaml, "a.yaml", overrides);
  EXPECT_TRUE(config.ok()) << std::string(config.status().message());
  return *config;
}

Dataset MakeDataset(const std::string& train, const std::vector<std::string>& overrides) {
  absl::StatusOr<Dataset> dataset = Dataset::Load(MakeConfig(train, overrides));
  EXPECT_TRUE(dataset.ok()) << std::string(dataset.status().message());
  return *std::move(dataset);
}

Batch TrainBatch(const Dataset& dataset, int64_t step, int64_t first_row, int64_t rows) {
  Batch batch(rows, 8);
  batch.count = dataset.FillTrain(step, first_row, batch.Span());
  return batch;
}

Batch EvalBatch(const Dataset& dataset, int64_t first_window, int64_t rows, int64_t context) {
  Batch batch(rows, context);
  batch.count = dataset.FillEval(first_window, dataset.eval_windows(), batch.Span());
  return batch;
}

std::string LoadError(const std::string& train, const std::vector<std::string>& overrides) {
  return std::string(Dataset::Load(MakeConfig(train, overrides)).status().message());
}

std::string Letters(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; i++) text += char('a' + (i * i + i / 7) % 26);
  return text;
}

std::string ShardBytes(const std::vector<uint32_t>& tokens, int width, std::optional<int32_t> count) {
  std::vector<int32_t> header(256);
  header[0] = width == 2 ? 20240520 : 20240801;
  header[1] = width == 2 ? 1 : 7;
  header[2] = count.value_or(int32_t(tokens.size()));
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  for (uint32_t token : tokens) bytes.append(reinterpret_cast<const char*>(&token), size_t(width));  // little-endian
  return bytes;
}

std::string WriteShards(const TempFolder& folder, const std::string& name, const std::string& text) {
  size_t begin = 0;
  for (int i = 0; begin < text.size(); i++) {
    size_t size = std::min(text.size() - begin, text.size() / 3 + size_t(i) + 1);
    std::vector<uint32_t> tokens;
    for (char byte : text.substr(begin, size)) tokens.push_back(uint8_t(byte));
    folder.Write(fmt::format("{}/{:03}.bin", name, i), ShardBytes(tokens, i % 2 ? 4 : 2));
    begin += size;
  }
  return folder.Path(name);
}

}  // namespace weft::testing_
