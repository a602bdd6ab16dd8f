// Page: the parts that all HTML reports share. A page loads nothing and has no script.
#pragma once
#include <string>
#include <vector>

#include "launcher/report/chart.h"

namespace weft {

// Returns a whole page. `body` is HTML.
std::string Page(const std::string& title, const std::string& body);

// Returns a table whose first column contains the names of the rows. `head` may be empty. All cells are text.
std::string Table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

// Returns a chart with its title and the range of each curve. Leaves out curves without values. Returns "" if no curve
// has values.
std::string Figure(Chart chart);

}  // namespace weft
