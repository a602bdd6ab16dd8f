// Escapes text for HTML pages and their SVG.
#pragma once
#include <string>
#include <string_view>

namespace weft {

// The result is valid in an element and in a quoted attribute.
std::string EscapeHtml(std::string_view text);

}  // namespace weft
