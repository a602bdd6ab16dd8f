#include "weft/dist/group/gloo/socket_buffer.h"

#include <fmt/format.h>
#include <gloo/common/error.h>

#include "weft/dist/group/gloo/socket_context.h"

namespace weft {

SocketBuffer::SocketBuffer(std::shared_ptr<SocketContext> context, void* memory, size_t bytes)
    : UnboundBuffer(memory, bytes), context_(std::move(context)) {}

SocketBuffer::~SocketBuffer() { context_->Forget(*this); }

char* SocketBuffer::At(size_t offset, size_t* bytes) const {
  if (*bytes == kUnspecifiedByteCount && offset <= size) *bytes = size - offset;
  // Gloo's algorithms have empty pieces beyond the end.
  if (*bytes > 0 && (offset > size || *bytes > size - offset))
    throw gloo::InvalidOperationException(
        fmt::format("gloo: {} bytes at {} of a buffer of {} bytes", *bytes, offset, size));
  return static_cast<char*>(ptr) + offset;
}

void SocketBuffer::send(int rank, uint64_t slot, size_t offset, size_t bytes) {
  const char* data = At(offset, &bytes);
  auto lock = context_->Lock();
  context_->pair(rank).Send(slot, data, bytes, this);
}

void SocketBuffer::recv(int rank, uint64_t slot, size_t offset, size_t bytes) {
  char* data = At(offset, &bytes);
  auto lock = context_->Lock();
  context_->pair(rank).Recv(slot, data, bytes, this);
}

void SocketBuffer::recv(std::vector<int> ranks, uint64_t slot, size_t offset, size_t bytes) {
  char* data = At(offset, &bytes);
  auto lock = context_->Lock();
  context_->RecvFromAny(std::move(ranks), slot, data, bytes, this);
}

bool SocketBuffer::Wait(Done& done, int* rank, milliseconds timeout) {
  if (timeout == gloo::transport::kUnsetTimeout) timeout = context_->getTimeout();
  auto lock = context_->Lock();
  auto over = [&] { return done.count > 0 || done.aborted || !error_.empty(); };
  waiting_++;
  bool in_time = context_->Await(lock, timeout, over);
  waiting_--;
  if (!in_time) {
    std::string error = fmt::format("timed out after {} ms: {}", timeout.count(), context_->Missing(*this));
    context_->FailAll("a wait timed out");
    throw gloo::IoException(error);
  }
  if (done.count == 0 && !error_.empty()) throw gloo::IoException(error_);
  if (done.aborted) return done.aborted = false;
  done.count--;
  if (rank) *rank = done.rank;
  return true;
}

void SocketBuffer::Finish(Done& done, int rank) {
  done.count++;
  done.rank = rank;
  if (waiting_) context_->Wake();
}

void SocketBuffer::FailWith(const std::string& error) {
  error_ = error;
  if (waiting_) context_->Wake();
}

void SocketBuffer::Abort(Done& done) {
  auto lock = context_->Lock();
  done.aborted = true;
  context_->Wake();
}

}  // namespace weft
