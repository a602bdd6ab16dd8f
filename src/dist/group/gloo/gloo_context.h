// GlooContext: a full mesh of SocketPairs among the ranks of one group.
//
// Gloo's rendezvous stores connect its own TCP pairs, which take whoever calls first. Here the bootstrap's network
// connects and proves the sockets, and the pairs are given them.
#pragma once
#include <gloo/context.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "weft/dist/start/bootstrap.h"

namespace weft {

class GlooContext final : public gloo::Context {
 public:
  // `ranks` are the global ranks of the group, `rank` the position of this one. All ranks of the world construct one
  // alike, and `timeout` bounds all that they wait for here. Throws Error when they disagree, or one does not come.
  GlooContext(int rank, const std::vector<int>& ranks, Bootstrap& bootstrap, std::chrono::milliseconds timeout);
};

}  // namespace weft
