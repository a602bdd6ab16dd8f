// The letters with which byte-level tokenizers spell bytes in JSON. A printable byte of Latin-1 is its own letter. The
// other 68 bytes are U+0100 and up, in byte order; a space is U+0120.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace weft {

// Returns the bytes that a text spells, or none if it contains any other character. Requires valid UTF-8.
std::optional<std::string> BytesOfLetters(std::string_view letters);

}  // namespace weft
