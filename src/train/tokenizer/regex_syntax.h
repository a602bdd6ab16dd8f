// The patterns of tokenizer.json in PCRE2's syntax. They are written for Oniguruma, whose letters mean other things in
// places: its \h is a digit, and \s has no U+180E, which PCRE2 takes for a space.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

// Translates what means the same in both: literals, escapes, classes, general categories (\p{L}), groups (?: ), (?i: ),
// (?= ), (?! ) and (?> ), alternatives, and repeats. Refuses the rest by name, with the offset in `pattern`.
absl::StatusOr<std::string> PcreSyntax(std::string_view pattern);

}  // namespace weft
