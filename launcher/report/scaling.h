// Scaling: measurements of `weft bench --json` on different numbers of ranks, as one page or picture. It shows the rate
// per rank over the number of ranks.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

// A case, and its latest rate for each number of ranks.
struct ScalingCase {
  std::string kind, name, unit;  // the name has dtype and device: "512 x 512 x 512 f32 cpu"
  std::map<int64_t, double> rates;
  std::map<int64_t, std::string> conditions;  // what was measured on so many ranks: labels, sizes, the device's name
};
struct Scaling {
  std::vector<ScalingCase> cases;   // in the order of their first lines
  std::vector<std::string> places;  // "a: Intel(R) Xeon(R), weft 0.1.0 (5f375fc)", without duplicates
};

// Returns whether weft bench wrote the file: its first line begins with {"kind":.
bool IsBenchFile(const std::string& path);
// Reads the lines of all files. Leaves out cases without a rate, and collectives of one rank. Errors name the file and
// the line, and what was expected. It is an error if lines of one case and number of ranks differ in conditions, such
// as the mesh.
absl::StatusOr<Scaling> ReadScaling(std::span<const std::string> paths);

// Returns a page with charts of at most kCurveColors cases and a table for each kind and unit. The percentages in a
// table are relative to the rate on the fewest ranks. `name` is the heading of the page.
std::string HtmlScaling(const Scaling& scaling, const std::string& name);
// Returns the charts of the page as a picture (picture.h).
std::string PictureOf(const Scaling& scaling);

}  // namespace weft
