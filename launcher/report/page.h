// Page: the parts that HTML reports have in common. A page needs nothing else: no network, no script.
#pragma once
#include <string>
#include <vector>

#include "launcher/report/chart.h"

namespace weft {

inline constexpr int kCurveColors = 8;  // classes c0 to c7

// A whole page. `body` is HTML.
std::string Page(const std::string& title, const std::string& body);

// A table whose first column names its rows. `head` may be empty. All cells are text.
std::string Table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

// A chart under its title, with the range of each curve. Curves without values are left out; "" where none is left.
std::string Figure(Chart chart);

}  // namespace weft
