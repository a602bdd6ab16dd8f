#include "launcher/report/chart_style.h"

#include "fmt/format.h"

namespace weft {
namespace {

struct Colors {
  const char *page, *text, *faint, *rule;
  const char* curves[kCurveColors];
};
constexpr Colors kLight{"#fff",
                        "#1b1f24",
                        "#59636e",
                        "#d8dee4",
                        {"#1f6feb", "#d1570a", "#1a7f37", "#8250df", "#bf3989", "#7d4e00", "#007a8a", "#57606a"}};
constexpr Colors kDark{"#0d1117",
                       "#e6edf3",
                       "#9198a1",
                       "#343b43",
                       {"#6cb0ff", "#ffa657", "#56d364", "#d2a8ff", "#ff8bc8", "#e3b341", "#56d4dd", "#b1bac4"}};

constexpr const char* kShapes = R"(svg text { font-size: 13px; }
.grid path, polyline { fill: none; }
polyline { stroke-width: 1.6; stroke-linejoin: round; }
polygon { opacity: .18; }
.raw { opacity: .35; stroke-width: 1; }
.validation polyline { stroke-width: 2.4; stroke-dasharray: 7 3; }
)";

std::string Rules(const Colors& c) {
  std::string css =
      fmt::format(":root {{ --page: {}; --text: {}; --faint: {}; --rule: {}; }}\n", c.page, c.text, c.faint, c.rule);
  css += fmt::format(
      ".page {{ fill: {}; }} svg text {{ fill: {}; }} svg .axis text, svg .name text {{ fill: {}; }} "
      ".grid path {{ stroke: {}; }}\n",
      c.page, c.faint, c.text, c.rule);
  for (int i = 0; i < kCurveColors; i++)
    css += fmt::format(
        ".c{0} polyline {{ stroke: {1}; }} .c{0} polygon, .c{0} circle, svg .name .c{0} {{ fill: {1}; }} "
        "b.c{0} {{ color: {1}; }}\n",
        i, c.curves[i]);
  return css;
}

}  // namespace

std::string ChartStyle() {
  return fmt::format("{}:root {{ color-scheme: light dark; }}\n{}@media (prefers-color-scheme: dark) {{\n{}}}\n",
                     kShapes, Rules(kLight), Rules(kDark));
}

}  // namespace weft
