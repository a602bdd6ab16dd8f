// Tokenizer: text to token numbers and back. Bytes (256 kinds) or chars (the sorted code points of a text).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

class Tokenizer {
 public:
  static Tokenizer Bytes() { return Tokenizer({}); }
  // `texts` are valid UTF-8.
  static Tokenizer Chars(const std::vector<std::string_view>& texts);

  // What a checkpoint keeps of it, for people too: a line that names the kind and, of chars, all of them in order.
  std::string Table() const;
  static absl::StatusOr<Tokenizer> FromTable(std::string_view table);

  int64_t vocab() const { return is_chars() ? int64_t(code_points_.size()) : 256; }
  // Fails on a character that is not in the vocabulary (chars), or on bytes that are not UTF-8 (chars).
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const;
  // Numbers outside the vocabulary (a padded model may draw them) become U+FFFD.
  std::string Decode(std::span<const int32_t> tokens) const;
  // How many bytes of text a token stands for.
  int BytesOf(int32_t token) const;

 private:
  explicit Tokenizer(std::vector<uint32_t> code_points) : code_points_(std::move(code_points)) {}
  bool is_chars() const { return !code_points_.empty(); }

  std::vector<uint32_t> code_points_;  // sorted; empty for bytes
};

}  // namespace weft
