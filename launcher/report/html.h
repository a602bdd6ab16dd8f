// HTML: text as a page or its SVG may hold it.
#pragma once
#include <string>
#include <string_view>

namespace weft {

// In an element or a quoted attribute.
std::string EscapeHtml(std::string_view text);

}  // namespace weft
