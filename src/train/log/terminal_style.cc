#include "weft/train/log/terminal_style.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "weft/dist/start/launched.h"
#include "weft/dist/start/mpirun.h"

namespace weft {
namespace {

// Returns 0 if the variable is unset or not a number.
size_t FromVariable(const char* name) {
  const char* columns = std::getenv(name);
  return columns ? size_t(std::strtoul(columns, nullptr, 10)) : 0;
}

// mpirun gives each rank its own pseudo-terminal wherever the output goes. Only the program that started mpirun knows
// the real width.
size_t ColumnsOfTerminal() {
  if (IsLaunched()) return FromVariable(kTerminalVariable);
  winsize size{};
  bool known = ::isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known ? size.ws_col : 0;
}

}  // namespace

TerminalStyle TerminalStyle::OfStdout() {
  TerminalStyle style;
  size_t columns = ColumnsOfTerminal(), given = FromVariable("COLUMNS");
  if (columns > 0 || given > 0) style.width = columns > 0 ? columns : given;
  const char* no_color = std::getenv("NO_COLOR");
  style.color = columns > 0 && !(no_color && *no_color);
  return style;
}

}  // namespace weft
