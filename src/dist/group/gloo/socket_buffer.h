// SocketBuffer: memory that Gloo sends from and receives into over the sockets of a SocketContext.
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
  // Ends the connections over which something of this buffer is still under way.
  ~SocketBuffer() override;

  // Throw gloo::IoException when a rank is gone, or nothing is done by the timeout: then all connections of the context
  // end. False when the wait was aborted.
  bool waitRecv(int* rank, milliseconds timeout) override { return Wait(received_, rank, timeout); }
  bool waitSend(int* rank, milliseconds timeout) override { return Wait(sent_, rank, timeout); }
  // From any thread: end the wait that there is, or the next one.
  void abortWaitRecv() override { Abort(received_); }
  void abortWaitSend() override { Abort(sent_); }

  // Throw gloo::IoException when the connection to the rank is gone.
  void send(int rank, uint64_t slot, size_t offset, size_t bytes) override;
  void recv(int rank, uint64_t slot, size_t offset, size_t bytes) override;
  void recv(std::vector<int> ranks, uint64_t slot, size_t offset, size_t bytes) override;

  // Of the context and its pairs, under the context's lock.
  void FinishRecv(int rank) { Finish(received_, rank); }
  void FinishSend(int rank) { Finish(sent_, rank); }
  void FailWith(const std::string& error);

 private:
  struct Done {
    int count = 0;
    int rank = -1;  // of the last one
    bool aborted = false;
  };
  bool Wait(Done& done, int* rank, milliseconds timeout);
  void Abort(Done& done);
  void Finish(Done& done, int rank);
  char* At(size_t offset, size_t* bytes) const;

  std::shared_ptr<SocketContext> context_;
  Done received_, sent_;
  std::string error_;
  int waiting_ = 0;  // threads
};

}  // namespace weft
