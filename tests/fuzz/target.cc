#include "fuzz/target.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace weft::fuzz {

std::string FileOf(const uint8_t* data, size_t size) {
  static const int fd = ::memfd_create("input", MFD_CLOEXEC);
  bool written = ::ftruncate(fd, 0) == 0 && ::pwrite(fd, data, size, 0) == ssize_t(size);
  Check(written, "the input can be written");
  return fmt::format("/proc/self/fd/{}", fd);
}

void Check(bool holds, const char* law) {
  if (holds) return;
  fmt::print(stderr, "broken: {}\n", law);
  std::abort();
}

}  // namespace weft::fuzz
