// DataFormat: the kinds of files that training data comes in. A new kind is a row of the table in data_format.cc, and
// its reader.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/data/source/token_stream.h"

namespace weft {

struct DataFormat {
  const char* name;  // as errors name its files: "text", "token shards"
  const char* one;   // one of them: "a token shard"
  const char* few;   // what to give more of
  // Whether a file is of this kind, by how it begins. Null in the row of text, which is what no other row claims.
  bool (*claims)(const std::string& path);
  // The tokens of such files, end to end. Null: the files hold text, which data.tokenizer turns into tokens.
  absl::StatusOr<TokenStream> (*open)(const std::vector<std::string>& paths);

  bool holds_tokens() const { return open != nullptr; }
};

// Text is the first row.
std::span<const DataFormat> DataFormats();
const DataFormat& FormatOf(const std::string& path);

}  // namespace weft
