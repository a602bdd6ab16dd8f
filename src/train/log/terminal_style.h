// TerminalStyle: how wide lines for people may be, and whether they have colours.
#pragma once
#include <cstddef>

namespace weft {

struct TerminalStyle {
  size_t width = 80;
  bool color = false;

  // Of stdout: the width of the terminal, else that of the variable COLUMNS, else 80 columns. Colours only on a
  // terminal whose width is known, and not if the variable NO_COLOR is set to anything (no-color.org). A rank under
  // mpirun writes to a terminal only if RunMpirun has said so.
  static TerminalStyle OfStdout();
};

}  // namespace weft
