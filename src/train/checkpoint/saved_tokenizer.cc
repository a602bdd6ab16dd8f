#include "weft/train/checkpoint/saved_tokenizer.h"

#include "fmt/format.h"

namespace weft {

absl::StatusOr<std::optional<Tokenizer>> SavedTokenizer(const Checkpoint& checkpoint) {
  for (size_t kind = 0; kind < std::size(kTokenizers); kind++) {
    const char* name = kTokenizers[kind].file;
    TokenizerFiles files{checkpoint.TextOf(name), checkpoint.TextOf(kTokenizerSettings)};
    if (files.table.empty()) continue;
    absl::StatusOr<Tokenizer> tokenizer = Tokenizer::FromFiles(TokenizerKind(kind), std::move(files));
    if (tokenizer.ok()) return *std::move(tokenizer);
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", checkpoint.PathOf(name), std::string(tokenizer.status().message())));
  }
  return std::nullopt;
}

}  // namespace weft
