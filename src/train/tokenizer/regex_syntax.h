// Translates the patterns of tokenizer.json to PCRE2's syntax. They are written for Oniguruma, where some escapes mean
// something else: its \h is a hexadecimal digit, and its \s excludes U+180E, which PCRE2 takes for a space.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

// Translates the constructs that mean the same in both: literals, escapes, classes, general categories (\p{L}), groups
// (?: ), (?i: ), (?= ), (?! ) and (?> ), alternatives, and repeats. Refuses all others; the error names the construct
// and its offset in `pattern`.
absl::StatusOr<std::string> PcreSyntax(std::string_view pattern);

}  // namespace weft
