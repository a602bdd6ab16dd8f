#include "weft/train/log/terminal_style.h"

#include <cstdlib>

#include "weft/dist/start/terminal.h"

namespace weft {
namespace {

// Returns 0 if the variable is unset or not a number.
size_t FromVariable(const char* name) {
  const char* columns = std::getenv(name);
  return columns ? size_t(std::strtoul(columns, nullptr, 10)) : 0;
}

}  // namespace

TerminalStyle TerminalStyle::OfStdout() {
  TerminalStyle style;
  size_t columns = TerminalColumns().value_or(0), given = FromVariable("COLUMNS");
  if (columns > 0 || given > 0) style.width = columns > 0 ? columns : given;
  const char* no_color = std::getenv("NO_COLOR");
  style.color = columns > 0 && !(no_color && *no_color);
  return style;
}

}  // namespace weft
