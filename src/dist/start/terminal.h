// Terminal: the one that shows what this process prints on stdout.
//
// mpirun gives each rank a pseudo-terminal wherever its output goes. So only the program that started mpirun knows
// whether a terminal shows it, and shares that by a variable. A rank of an mpirun that the user started has none.
#pragma once
#include <cstddef>
#include <optional>

namespace weft {

// Returns the terminal's width in columns, 0 if it is unknown, or nullopt if stdout is no terminal.
std::optional<size_t> TerminalColumns();

// Sets the variable for ranks that mpirun will start, or unsets it if stdout is no terminal.
void ShareTerminal();

}  // namespace weft
