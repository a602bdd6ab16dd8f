// The style sheet of charts, for pages and pictures, in light and dark.
#pragma once
#include <string>

namespace weft {

inline constexpr int kCurveColors = 8;  // classes c0 to c7

// Returns CSS. Charts get plain colours, which every reader of SVG knows. Pages can use the variables --page, --text,
// --faint and --rule.
std::string ChartStyle();

}  // namespace weft
