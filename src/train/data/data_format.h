// DataFormat: the formats of data files. A new format needs a row in the table of data_format.cc and a reader.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/data/source/token_stream.h"

namespace weft {

struct DataFormat {
  const char* name;  // name of its files in errors: "text", "token shards"
  const char* one;   // a single file: "a token shard"
  const char* few;   // what to give more of
  // Whether a file has this format, judged by its first bytes. Null for text, which is every file that no other row
  // claims.
  bool (*claims)(const std::string& path);
  // Returns the tokens of such files, concatenated. Null: the files hold text, which data.tokenizer encodes.
  absl::StatusOr<TokenStream> (*open)(const std::vector<std::string>& paths);

  bool holds_tokens() const { return open != nullptr; }
};

// Text is the first row.
std::span<const DataFormat> DataFormats();
const DataFormat& FormatOf(const std::string& path);

}  // namespace weft
