// GlooChannel: a stream of exchanges with the other ranks of a GlooContext, one at a time, that allocates nothing.
//
// Gloo moves bytes between unbound buffers: a base, a limit, and per piece an offset. Sockets register no memory, so a
// channel makes one buffer for good, of the whole address space, in which an offset is an address.
#pragma once
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "weft/dist/group/gloo/gloo_context.h"

namespace weft {

// Gloo matches a send with a receive by a 64-bit slot, and those of one slot in their order. Ours: 24 bits
// of the sequence number, 5 of the step, and a hash of what the call is and of the piece's size: ranks that make
// different calls never meet, and time out, instead of mixing data.
struct GlooTag {
  uint64_t call_hash = 0;  // HashOf what the call is
  uint64_t sequence = 0;   // of the call
  uint64_t step = 0;       // of the exchange within the call

  // FNV-1a over a few numbers: the same in every process.
  static uint64_t HashOf(std::initializer_list<uint64_t> values, uint64_t seed = 0xcbf29ce484222325);
  uint64_t Slot(int64_t bytes) const;
};

struct GlooSend {
  int peer;
  const void* data;
  int64_t bytes;
};
struct GlooRecv {
  int peer;
  void* data;
  int64_t bytes;
};

class GlooChannel {
 public:
  // Bytes of pieces that went through, without the headers that Gloo puts before them.
  struct Traffic {
    int64_t sent = 0, received = 0;
  };
  using Deadline = std::chrono::steady_clock::time_point;
  explicit GlooChannel(gloo::Context& context) : context_(context) {}

  // One step: all pieces leave and arrive at the same time; empty ones are left out. Throws when a piece is not through
  // by the deadline, a peer is gone or Abort ends it; then the channel has failed, and Gloo no longer touches the
  // pieces' memory.
  Traffic Exchange(std::span<const GlooSend> sends, std::span<const GlooRecv> recvs, const GlooTag& tag,
                   Deadline deadline);
  // From any thread: ends an exchange that waits, and all that come.
  void Abort();

 private:
  using Buffer = gloo::transport::UnboundBuffer;
  Buffer& Open();
  void Close();

  gloo::Context& context_;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Buffer> memory_;
  bool failed_ = false;
};

}  // namespace weft
