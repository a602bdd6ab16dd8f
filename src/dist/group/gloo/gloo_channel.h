// GlooChannel: runs exchanges with the other ranks of a GlooContext, one at a time, without allocating.
//
// Gloo moves bytes between unbound buffers: a base, a limit, and an offset per piece. Sockets register no memory, so a
// channel makes one permanent buffer of the whole address space, in which an offset is an address.
#pragma once
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "weft/dist/group/gloo/gloo_context.h"

namespace weft {

// Gloo matches a send with a receive by a 64-bit slot, and messages of one slot in order. A slot has 24 bits of the
// sequence number, 5 of the step, and a hash of the call and of the piece's size. So ranks that make different calls
// never match and time out, instead of mixing data.
struct GlooTag {
  uint64_t call_hash = 0;  // HashOf the call's properties
  uint64_t sequence = 0;   // number of the call
  uint64_t step = 0;       // number of the exchange within the call

  // FNV-1a over a few numbers, equal in every process.
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
  // Bytes of the pieces that were moved, without frame headers.
  struct Traffic {
    int64_t sent = 0, received = 0;
  };
  using Deadline = std::chrono::steady_clock::time_point;
  explicit GlooChannel(gloo::Context& context) : context_(context) {}

  // Runs one step, which sends and receives all pieces concurrently. Empty pieces are skipped. Throws if a piece has
  // not arrived by the deadline, a peer has ended or Abort was called. The channel has failed after that, and Gloo no
  // longer accesses the pieces' memory.
  Traffic Exchange(std::span<const GlooSend> sends, std::span<const GlooRecv> recvs, const GlooTag& tag,
                   Deadline deadline);
  // Ends a waiting exchange and all later ones. Thread-safe.
  void Abort();

 private:
  using Buffer = gloo::transport::UnboundBuffer;
  Buffer& Open();
  void Close();

  gloo::Context& context_;
  std::mutex mutex_;  // guards the members below
  std::unique_ptr<Buffer> memory_;
  bool failed_ = false;
};

}  // namespace weft
