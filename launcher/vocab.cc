#include "launcher/vocab.h"

#include <fmt/format.h>

#include "weft/train/data/data.h"

namespace weft {
namespace {

// Returns the vocabulary size of data.tokenizer. With chars it is the number of different characters in the text.
absl::StatusOr<int64_t> TokenizerVocab(const Config& config) {
  if (config.data.tokenizer == "chars") {
    absl::StatusOr<Dataset> data = Dataset::Load(config);
    if (!data.ok()) return data.status();
    return data->tokenizer_vocab();
  }
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Open(config.data.tokenizer);
  if (!tokenizer.ok()) return tokenizer.status();
  return KindsOf(config, *tokenizer);
}

}  // namespace

absl::Status FillVocab(Config& config, std::vector<std::string>& notes) {
  constexpr int64_t kAssumed = 256;
  absl::StatusOr<DataFiles> files = FindDataFiles(config.data.train);
  bool has_file = Tokenizer::HasFile(config.data.tokenizer), given = config.model.vocab > 0;
  bool holds_tokens = files.ok() && files->format->holds_tokens() && !config.data.synthetic;
  if (holds_tokens && !has_file) return CheckShardKeys(config);
  if (config.data.tokenizer == "chars" && given) return absl::OkStatus();
  absl::StatusOr<int64_t> vocab = TokenizerVocab(config);
  if (vocab.ok()) return ResolveVocab(config, *vocab);
  if (given) return absl::OkStatus();
  notes.push_back(fmt::format("model.vocab = {} is assumed; give model.vocab=N, as tokenizer {} has no {} ({})",
                              kAssumed, config.data.tokenizer, has_file ? "file" : "text",
                              std::string(vocab.status().message())));
  return ResolveVocab(config, kAssumed);
}

}  // namespace weft
