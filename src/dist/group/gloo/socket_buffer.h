// SocketBuffer: memory from which Gloo sends and into which it receives over the sockets of a SocketContext.
#pragma once
#include <gloo/transport/unbound_buffer.h>

#include <memory>
#include <string>
#include <vector>

namespace weft {

class SocketContext;

class SocketBuffer final : public gloo::transport::UnboundBuffer {
 public:
  using milliseconds = std::chrono::milliseconds;
  using UnboundBuffer::waitRecv;
  using UnboundBuffer::waitSend;

  SocketBuffer(std::shared_ptr<SocketContext> context, void* ptr, size_t size);
  // Closes the connections that still have pending transfers of this buffer.
  ~SocketBuffer() override;

  // These return false if the wait was aborted. They throw gloo::IoException if a rank has ended, or if nothing
  // completes by the timeout. A timeout closes all connections of the context.
  bool waitRecv(int* rank, milliseconds timeout) override { return Wait(received_, rank, timeout); }
  bool waitSend(int* rank, milliseconds timeout) override { return Wait(sent_, rank, timeout); }
  // These end the present wait, or the next one. Thread-safe.
  void abortWaitRecv() override { Abort(received_); }
  void abortWaitSend() override { Abort(sent_); }

  // These throw gloo::IoException if the connection to the rank is closed.
  void send(int rank, uint64_t slot, size_t offset, size_t bytes) override;
  void recv(int rank, uint64_t slot, size_t offset, size_t bytes) override;
  void recv(std::vector<int> ranks, uint64_t slot, size_t offset, size_t bytes) override;

  // For the context and its pairs, under the context's lock.
  void FinishRecv(int rank) { Finish(received_, rank); }
  void FinishSend(int rank) { Finish(sent_, rank); }
  void FailWith(const std::string& error);

 private:
  struct Done {
    int count = 0;
    int rank = -1;  // the other side of the last transfer
    bool aborted = false;
  };
  bool Wait(Done& done, int* rank, milliseconds timeout);
  void Abort(Done& done);
  void Finish(Done& done, int rank);
  char* At(size_t offset, size_t* bytes) const;

  std::shared_ptr<SocketContext> context_;
  Done received_, sent_;
  std::string error_;
  int waiting_ = 0;  // number of waiting threads
};

}  // namespace weft
