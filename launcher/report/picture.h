// Picture: charts as one SVG file that stands by itself, for pages that show it as an image.
#pragma once
#include <string>
#include <vector>

#include "launcher/report/chart.h"

namespace weft {

inline constexpr const char* kPictureBegin = "<svg xmlns=\"http://www.w3.org/2000/svg\"";

// Returns the charts that have values, with their titles and the names of their curves, in two columns; one chart has
// the whole width. Curves have fewer points than on a page. Returns "" if no chart has values. The picture follows the
// reader's choice of light or dark. It loads nothing.
std::string Picture(std::vector<Chart> charts);

}  // namespace weft
