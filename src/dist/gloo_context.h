// GlooContext: a full mesh of Gloo's TCP pairs among the ranks of one group, and the device (one loop thread) they
// share.
//
// Gloo's rendezvous stores are lazy: each rank asks in its own order, which cannot run over an exchange that is
// collective. So the pairs are made first, the addresses go through one AllGather of the world, and then the pairs
// connect.
#pragma once
#include <gloo/context.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <memory>
#include <vector>

#include "dist/bootstrap.h"

namespace weft {

// The device of this process: on the interface WEFT_INTERFACE where that is set, else on the loopback when all ranks
// share a host, else on an address of this host that the others can reach. Throws Error when there is none.
std::shared_ptr<gloo::transport::Device> MakeGlooDevice(const Bootstrap& bootstrap);

class GlooContext final : public gloo::Context {
 public:
  // `ranks` are the global ranks of the group, `rank` the position of this one. All ranks of the world construct one
  // alike.
  GlooContext(int rank, const std::vector<int>& ranks, Bootstrap& bootstrap,
              std::shared_ptr<gloo::transport::Device> device, std::chrono::milliseconds timeout);
};

}  // namespace weft
