// GlooContext: a full mesh of SocketPairs among the ranks of one group.
//
// Gloo's rendezvous stores connect its own TCP pairs, which accept any caller. Here the bootstrap's network connects
// and authenticates the sockets, and the pairs receive them.
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
  // `ranks` are the global ranks of the group, `rank` the position of this one. Collective over the world. `timeout`
  // bounds meeting and connecting, but connecting gets at least one second. Throws Error if the ranks disagree or one
  // does not come.
  GlooContext(int rank, const std::vector<int>& ranks, Bootstrap& bootstrap, std::chrono::milliseconds timeout);
};

}  // namespace weft
