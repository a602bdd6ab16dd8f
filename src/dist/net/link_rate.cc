#include "weft/dist/net/link_rate.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "weft/core/base/error.h"

namespace weft {

int64_t LinkRate() {
  const char* text = std::getenv("WEFT_LINK_MB_S");
  if (!text || !*text) return 0;
  double rate = 0;
  WEFT_CHECK(absl::SimpleAtod(text, &rate) && rate >= 0.001 && rate <= 1e6,
             fmt::format("WEFT_LINK_MB_S: expected megabytes per second, 0.001 to 1000000, got \"{}\"; unset "
                         "it for the full rate",
                         text));
  return int64_t(rate * 1e6);
}

void LimitRate(const Socket& socket, int64_t bytes_per_s) {
  if (bytes_per_s == 0) return;
  auto rate = static_cast<unsigned long>(bytes_per_s);
  WEFT_CHECK(setsockopt(socket.fd(), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)) == 0,
             fmt::format("WEFT_LINK_MB_S: the system does not limit the rate of a connection: {}; unset it",
                         std::strerror(errno)));
}

}  // namespace weft
