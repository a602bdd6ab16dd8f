// The rate of the connections that move tensors between CPU ranks. WEFT_LINK_MB_S limits it, to try a run as on a
// slower network.
#pragma once
#include <cstdint>

#include "weft/dist/net/tcp_socket.h"

namespace weft {

// Returns the bytes per second that each connection may send in each direction, or 0 if the environment sets no limit.
// Throws Error unless its value is 0.001 to 1000000.
int64_t LinkRate();
// Makes the kernel send at most `bytes_per_s` (Linux: SO_MAX_PACING_RATE); 0 changes nothing. Throws Error if the
// kernel refuses.
void LimitRate(const Socket& socket, int64_t bytes_per_s);

}  // namespace weft
