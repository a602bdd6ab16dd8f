// Tokens of texts, for comparison with other libraries.
//
// - tokens TOKENIZER TEXTS OUT encodes the texts of a file. Before each text is its number of bytes. OUT gets the
//   tokens of each text after their number, all as uint32.
// - tokens TOKENIZER TEXT encodes a file as one text. It prints the bytes, the tokens and the seconds on one core.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>

#include "weft/train/io/text_reader.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {
namespace {

void Put(std::ofstream& out, uint32_t value) { out.write(reinterpret_cast<const char*>(&value), sizeof value); }

absl::Status EncodeAll(const Tokenizer& tokenizer, std::string_view texts, const char* path) {
  std::ofstream out(path, std::ios::binary);
  for (uint32_t size = 0; !texts.empty(); texts.remove_prefix(sizeof size + size)) {
    std::memcpy(&size, texts.data(), sizeof size);
    absl::StatusOr<std::vector<int32_t>> tokens = tokenizer.Encode(texts.substr(sizeof size, size));
    if (!tokens.ok()) return tokens.status();
    tokens->insert(tokens->begin(), tokenizer.begin().begin(), tokenizer.begin().end());
    Put(out, uint32_t(tokens->size()));
    for (int32_t token : *tokens) Put(out, uint32_t(token));
  }
  return out.flush() ? absl::OkStatus() : absl::UnavailableError("cannot be written");
}

absl::Status Time(const Tokenizer& tokenizer, const std::string& text) {
  std::clock_t begin = std::clock();
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer.Encode(text);
  if (!tokens.ok()) return tokens.status();
  double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  fmt::print("{} {} {:.6f}\n", text.size(), tokens->size(), seconds);
  return absl::OkStatus();
}

absl::Status Run(int count, char** words) {
  if (count != 3 && count != 4)
    return absl::InvalidArgumentError("usage: tokens TOKENIZER TEXTS OUT, or TOKENIZER TEXT");
  absl::StatusOr<Tokenizer> tokenizer = Tokenizer::Open(words[1]);
  if (!tokenizer.ok()) return tokenizer.status();
  absl::StatusOr<std::string> texts = ReadFile(words[2]);
  if (!texts.ok()) return texts.status();
  return count == 3 ? Time(*tokenizer, *texts) : EncodeAll(*tokenizer, *texts, words[3]);
}

}  // namespace
}  // namespace weft

int main(int count, char** words) {
  absl::Status status = weft::Run(count, words);
  if (!status.ok()) fmt::print(stderr, "tokens: {}\n", std::string(status.message()));
  return status.ok() ? 0 : 2;
}
