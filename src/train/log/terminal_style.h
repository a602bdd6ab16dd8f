// TerminalStyle: the width of text lines, and whether they have colors.
#pragma once
#include <cstddef>

namespace weft {

struct TerminalStyle {
  size_t width = 80;
  bool color = false;

  // The width is that of the terminal, or else the variable COLUMNS, or else 80 columns. Colors need a terminal of
  // known width (dist/start/terminal.h) and an empty or unset NO_COLOR (no-color.org).
  static TerminalStyle OfStdout();
};

}  // namespace weft
