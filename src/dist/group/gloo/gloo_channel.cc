#include "weft/dist/group/gloo/gloo_channel.h"

#include <algorithm>
#include <limits>

#include "weft/core/base/error.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

milliseconds Left(GlooChannel::Deadline deadline) {
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()));
}

// Starts with the piece of the next rank, so that not all ranks send to rank 0 first. Returns the number of started
// pieces.
template <class Piece, class Fn>
int Start(std::span<const Piece> pieces, int rank, Fn fn) {
  int started = 0;
  for (size_t i = 0; i < pieces.size(); i++) {
    const Piece& piece = pieces[(i + size_t(rank)) % pieces.size()];
    if (piece.bytes == 0) continue;
    fn(piece);
    started++;
  }
  return started;
}

}  // namespace

uint64_t GlooTag::HashOf(std::initializer_list<uint64_t> values, uint64_t seed) {
  for (uint64_t v : values)
    for (int i = 0; i < 64; i += 8) seed = (seed ^ (v >> i & 0xff)) * 0x100000001b3;
  return seed;
}

uint64_t GlooTag::Slot(int64_t bytes) const {
  uint64_t hash = HashOf({uint64_t(bytes)}, call_hash);
  return (hash ^ (hash >> 32)) << 29 | (step & 0x1f) << 24 | (sequence & 0xffffff);
}

GlooChannel::Buffer& GlooChannel::Open() {
  std::lock_guard lock(mutex_);
  WEFT_CHECK(!failed_, "the group has failed before");
  if (!memory_) memory_ = context_.createUnboundBuffer(nullptr, std::numeric_limits<size_t>::max());
  return *memory_;
}

// Without the buffer Gloo drops data that still arrives for it, so the caller may free the pieces' memory.
void GlooChannel::Close() {
  std::lock_guard lock(mutex_);
  failed_ = true;
  memory_.reset();
}

void GlooChannel::Abort() {
  std::lock_guard lock(mutex_);
  failed_ = true;
  if (!memory_) return;
  memory_->abortWaitRecv();
  memory_->abortWaitSend();
}

GlooChannel::Traffic GlooChannel::Exchange(std::span<const GlooSend> sends, std::span<const GlooRecv> recvs,
                                           const GlooTag& tag, Deadline deadline) {
  Buffer& memory = Open();
  Traffic traffic;
  auto address = [](const void* data) { return reinterpret_cast<size_t>(data); };
  try {
    int receiving = Start(recvs, context_.rank, [&](const GlooRecv& p) {
      memory.recv(p.peer, tag.Slot(p.bytes), address(p.data), size_t(p.bytes));
      traffic.received += p.bytes;
    });
    int sending = Start(sends, context_.rank, [&](const GlooSend& p) {
      memory.send(p.peer, tag.Slot(p.bytes), address(p.data), size_t(p.bytes));
      traffic.sent += p.bytes;
    });
    // waitRecv and waitSend return false if Abort ended them.
    while (receiving-- > 0) WEFT_CHECK(memory.waitRecv(Left(deadline)), "the receive was aborted");
    while (sending-- > 0) WEFT_CHECK(memory.waitSend(Left(deadline)), "the send was aborted");
  } catch (...) {
    Close();
    throw;
  }
  return traffic;
}

}  // namespace weft
