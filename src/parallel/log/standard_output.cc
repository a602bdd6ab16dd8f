#include "parallel/log/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fmt/format.h"

namespace weft {

absl::Status Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return CheckPrinted();
}

absl::Status CheckPrinted() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("stdout: cannot be written ({}), so output is lost; write it elsewhere",
                                            errno ? std::strerror(errno) : "an earlier write failed"));
}

}  // namespace weft
