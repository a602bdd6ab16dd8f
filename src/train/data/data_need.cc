#include "weft/train/data/data_need.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "weft/core/host/utf8.h"
#include "weft/train/data/data_files.h"
#include "weft/train/data/document_reader.h"
#include "weft/train/tokenizer/stream_encoder.h"

namespace weft {
namespace {

constexpr size_t kMostSamples = 8;
constexpr int64_t kSampleBytes = int64_t{2} << 20;  // of text; decoders read ahead by 128 KiB
constexpr size_t kBlock = size_t{1} << 14;          // small, because JSONL is read ahead by a block

// Totals of the parts of files that were read.
struct Sample {
  int64_t read = 0, text = 0, tokens = 0;  // bytes of the files, bytes of text, tokens
};

// Counts tokens. If `tokenizer` is null, counts characters as tokens.
class TokenCounter {
 public:
  TokenCounter(const Tokenizer* tokenizer, int64_t& tokens) : tokens_(tokens) {
    if (!tokenizer) return;
    encoder_.emplace(*tokenizer, [this](std::span<const int32_t> ids) {
      tokens_ += int64_t(ids.size());
      return absl::OkStatus();
    });
  }
  absl::Status Add(const TextBlock& block) {
    if (!encoder_) {
      tokens_ += int64_t(CountCodePoints(block.text));
      return absl::OkStatus();
    }
    if (block.begins)
      if (absl::Status s = encoder_->BeginDocument(); !s.ok()) return s;
    return encoder_->Add(block.text);
  }
  absl::Status Finish() { return encoder_ ? encoder_->Finish() : absl::OkStatus(); }

 private:
  int64_t& tokens_;
  std::optional<StreamEncoder> encoder_;
};

absl::Status AddSample(const std::string& path, const std::string& field, const Tokenizer* tokenizer, Sample& sample) {
  DocumentReader reader({path}, field, kBlock);
  TokenCounter counter(tokenizer, sample.tokens);
  int64_t text = 0, read = 0;
  while (text < kSampleBytes) {
    absl::StatusOr<TextBlock> block = reader.Next();
    if (!block.ok()) return block.status();
    read = reader.taken();
    if (block->text.empty()) {  // the whole file was read
      std::error_code error;
      read = int64_t(std::filesystem::file_size(path, error));
      break;
    }
    text += int64_t(block->text.size());
    if (absl::Status s = counter.Add(*block); !s.ok()) return s;
  }
  sample.text += text;
  sample.read += read;
  return counter.Finish();
}

// The tokenizer of a config, opened when the first text needs it.
class TokenizerOnDemand {
 public:
  explicit TokenizerOnDemand(std::string name) : name_(std::move(name)) {}
  // Returns null for chars.
  absl::StatusOr<const Tokenizer*> Get() {
    if (name_ == "chars") return nullptr;
    if (!tokenizer_) {
      absl::StatusOr<Tokenizer> opened = Tokenizer::Open(name_);
      if (!opened.ok()) return opened.status();
      tokenizer_ = *std::move(opened);
    }
    return &*tokenizer_;
  }

 private:
  std::string name_;
  std::optional<Tokenizer> tokenizer_;
};

struct Source {
  PathList paths;
  std::string field;
};

std::vector<Source> SourcesOf(const DataConfig& data) {
  std::vector<Source> sources;
  for (const MixturePart& part : data.mixture)
    sources.push_back({part.paths, part.field.empty() ? data.field : part.field});
  if (sources.empty()) sources.push_back({data.train, data.field});
  if (!data.val.paths.empty()) sources.push_back({data.val.paths, data.field});
  return sources;
}

absl::Status AddNeed(const Source& source, TokenizerOnDemand& on_demand, DataNeed& need) {
  absl::StatusOr<DataFiles> files = FindDataFiles(source.paths);
  if (!files.ok()) return files.status();
  if (files->format->holds_tokens()) return absl::OkStatus();
  absl::StatusOr<const Tokenizer*> tokenizer = on_demand.Get();
  if (!tokenizer.ok()) return tokenizer.status();
  const std::vector<std::string>& paths = files->paths;
  size_t samples = std::min(paths.size(), kMostSamples);
  Sample sample;
  for (size_t i = 0; i < samples; i++)
    if (absl::Status s = AddSample(paths[i * paths.size() / samples], source.field, *tokenizer, sample); !s.ok())
      return s;
  double bytes = 0;
  std::error_code error;
  for (const std::string& path : paths) bytes += double(std::filesystem::file_size(path, error));
  if (sample.read == 0) return absl::OkStatus();
  double parts = bytes / double(sample.read);
  need.tokens += int64_t(double(sample.tokens) * sizeof(int32_t) * parts);
  need.text += int64_t(double(sample.text) * parts);
  return absl::OkStatus();
}

}  // namespace

DataNeed EstimateDataNeed(const Config& config) {
  DataNeed need;
  if (config.data.synthetic) return need;
  TokenizerOnDemand tokenizer(config.data.tokenizer);
  for (const Source& source : SourcesOf(config.data))
    if (absl::Status s = AddNeed(source, tokenizer, need); !s.ok()) return {.unknown = std::string(s.message())};
  return need;
}

}  // namespace weft
