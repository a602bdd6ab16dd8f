#include "weft/dist/start/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "weft/dist/start/launched.h"

namespace weft {
namespace {

constexpr const char* kTerminalVariable = "WEFT_TERMINAL";

std::optional<size_t> OwnColumns() {
  if (!::isatty(STDOUT_FILENO)) return std::nullopt;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

std::optional<size_t> TerminalColumns() {
  const Launch* launch = FindLaunch();
  if (!launch || launch->meeting != Launch::kMpi) return OwnColumns();
  const char* shared = std::getenv(kTerminalVariable);
  if (!shared) return std::nullopt;
  return std::strtoul(shared, nullptr, 10);
}

void ShareTerminal() {
  std::optional<size_t> columns = OwnColumns();
  if (columns)
    ::setenv(kTerminalVariable, std::to_string(*columns).c_str(), /*overwrite=*/1);
  else
    ::unsetenv(kTerminalVariable);
}

}  // namespace weft
