// TerminalStyle: the width of text lines, and whether they have colors.
#pragma once
#include <cstddef>

namespace weft {

struct TerminalStyle {
  size_t width = 80;
  bool color = false;

  // The width is that of the terminal, or else the variable COLUMNS, or else 80 columns. Colors need a terminal of
  // known width and an empty or unset NO_COLOR (no-color.org). Under mpirun, a rank has a terminal only if RunMpirun
  // passed its width in a variable.
  static TerminalStyle OfStdout();
};

}  // namespace weft
