// Regex: the patterns by which tokenizers cut text into words. PCRE2 searches, with its compiler to machine code where
// it has one for this processor; its header stays in regex.cc.
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

// A copy shares the compiled pattern.
class Regex {
 public:
  // `pattern` is in the syntax of tokenizer.json; see regex_syntax.h. Also refuses one that matches "".
  static absl::StatusOr<Regex> Compile(std::string_view pattern);

 private:
  friend class RegexSearch;
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

// One thread's searches.
class RegexSearch {
 public:
  explicit RegexSearch(const Regex& regex);
  ~RegexSearch();
  RegexSearch(RegexSearch&&) noexcept;

  // Returns the first match that begins at `from` or after it, in `text`, which is valid UTF-8. If `ends` is false,
  // text follows, and a match that it could change is not returned. Fails on a pattern that tries too many ways to
  // match.
  absl::StatusOr<std::optional<TextSpan>> Next(std::string_view text, size_t from, bool ends);

 private:
  struct Memory;
  Regex regex_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace weft
