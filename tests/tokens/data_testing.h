// Datasets from files that a test writes, and batches of them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/temp_folder.h"
#include "weft/train/config/config.h"
#include "weft/train/data/data.h"

namespace weft::testing_ {

Config MakeConfig(const std::string& train, const std::vector<std::string>& overrides);

Dataset MakeDataset(const std::string& train, const std::vector<std::string>& overrides = {});

struct Batch {
  Batch(int64_t rows, int64_t context) : tokens(size_t(rows * context), -7), targets(tokens) {}
  BatchSpan Span() { return {tokens, targets}; }
  std::vector<int32_t> tokens, targets;  // -7: not written
  int64_t count = 0;
};

Batch TrainBatch(const Dataset& dataset, int64_t step, int64_t first_row, int64_t rows);

Batch EvalBatch(const Dataset& dataset, int64_t first_window, int64_t rows, int64_t context);

std::string LoadError(const std::string& train, const std::vector<std::string>& overrides = {});

std::string Letters(size_t n);

// A token shard as llm.c writes it. `count`, where given, is what its header says.
std::string ShardBytes(const std::vector<uint32_t>& tokens, int width, std::optional<int32_t> count = {});

// The bytes of a text as shards of uneven sizes and both widths, in a new folder: what tokenizer bytes makes of it.
std::string WriteShards(const TempFolder& folder, const std::string& name, const std::string& text);

}  // namespace weft::testing_
