// Regex: patterns with which tokenizers split text into words. PCRE2 does the search, with its JIT compiler if it has
// one for this processor. Only regex.cc includes its header.
//
//   absl::StatusOr<Regex> regex = Regex::Compile(R"(\p{L}+|\s+)");
//   RegexSearch search(*regex);
//   absl::StatusOr<std::optional<TextSpan>> word = search.Next(text, 0, /*ends=*/true);
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

// The bytes [begin, end) of a text.
struct TextSpan {
  size_t begin, end;
};

// Copies share the compiled pattern.
class Regex {
 public:
  // `pattern` is in the syntax of tokenizer.json; see regex_syntax.h. Also refuses a pattern that matches the empty
  // string.
  static absl::StatusOr<Regex> Compile(std::string_view pattern);

 private:
  friend class RegexSearch;
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

// Searches with a pattern. Not thread-safe.
class RegexSearch {
 public:
  explicit RegexSearch(const Regex& regex);
  ~RegexSearch();
  RegexSearch(RegexSearch&&) noexcept;

  // Returns the first match in `text` that begins at or after `from`, or none. Requires valid UTF-8. `ends` is false if
  // more text follows; then a match that the following text could change is not returned. Returns an error if the
  // pattern backtracks too much.
  absl::StatusOr<std::optional<TextSpan>> Next(std::string_view text, size_t from, bool ends);

 private:
  struct Memory;
  Regex regex_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace weft
