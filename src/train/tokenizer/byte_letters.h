// The letters by which byte-level tokenizers spell bytes in JSON: printable ones of Latin-1 stand for themselves, the
// other 68 for U+0100 and on, in their order. A space is U+0120.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace weft {

// The bytes that valid UTF-8 text spells; none if it has another character.
std::optional<std::string> BytesOfLetters(std::string_view letters);

}  // namespace weft
