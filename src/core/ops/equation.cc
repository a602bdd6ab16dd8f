#include "weft/core/ops/equation.h"

#include <fmt/format.h>

#include "weft/core/base/error.h"

namespace weft {

bool Equation::Holds(std::string_view text) {
  size_t comma = text.find(','), arrow = text.find("->");
  return comma != std::string_view::npos && arrow != std::string_view::npos && comma < arrow;
}

Equation::Equation(std::string_view text) {
  WEFT_CHECK(Holds(text), fmt::format("einsum: expected an equation like \"ab,bc->ac\", got \"{}\"", text));
  size_t comma = text.find(','), arrow = text.find("->");
  a = text.substr(0, comma);
  b = text.substr(comma + 1, arrow - comma - 1);
  out = text.substr(arrow + 2);
}

}  // namespace weft
