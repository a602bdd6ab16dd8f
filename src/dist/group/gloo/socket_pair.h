// SocketPair: Gloo's connection to one other rank, over a connected, authenticated socket.
//
// The n-th message of a slot goes to the n-th receive of that slot. A small message is sent at once if all messages
// that the receiver has not taken fit into a window, and the receiver keeps it until it is requested. For any other
// message the receiver first sends a permit, so that the message is read directly into its memory:
//
//   receive posted first:  kPermit ->, <- kDirect         message posted first:  <- kOffer, kPermit ->, <- kBody
//
// All functions except those of Gloo's interface require the context's lock.
#pragma once
#include <gloo/transport/pair.h>

#include <memory>
#include <string>
#include <vector>

#include "weft/dist/group/gloo/kept_messages.h"
#include "weft/dist/group/gloo/socket_frames.h"
#include "weft/dist/net/tcp_socket.h"

namespace weft {

class SocketContext;

class SocketPair final : public gloo::transport::Pair, private FrameReader::Sink {
 public:
  static constexpr size_t kEager = 16 << 10;  // the largest message that is sent without a permit
  // The most bytes of such messages, with headers, that the other side has not taken.
  static constexpr uint64_t kWindow = 1 << 20;

  SocketPair(SocketContext& context, int rank);
  ~SocketPair() override;

  // Gloo's interface. SocketContext::Adopt gives a pair its socket, so it connects nowhere. Buffers of one pair and the
  // blocking mode, which only Gloo's older algorithms use, are not supported. These functions throw.
  const gloo::transport::Address& address() const override;
  void connect(const std::vector<char>& bytes) override;
  void setSync(bool enable, bool busy_poll) override;
  std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int slot, void* ptr, size_t size) override;
  std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int slot, void* ptr, size_t size) override;
  void close() override;
  void send(gloo::transport::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t bytes) override;
  void recv(gloo::transport::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t bytes) override;

  // `name` is the other side in messages, "rank 2".
  void Adopt(Socket socket, std::string name);
  int rank() const { return rank_; }
  int fd() const { return socket_.fd(); }
  bool is_open() const { return bool(socket_); }

  // These throw gloo::IoException if the connection is closed.
  void Send(uint64_t slot, const char* data, size_t bytes, SocketBuffer* owner);
  void Recv(uint64_t slot, char* data, size_t room, SocketBuffer* owner);
  bool HasArrival(uint64_t slot) const;
  void Flush();
  void HandleEvents(uint32_t events);
  // Closes the connection. Pending transfers fail with the error.
  void Fail(const std::string& error);
  bool Uses(const SocketBuffer& buffer) const;
  // Returns what the buffer still waits for from this rank, "rank 2 has not sent a message", or "".
  std::string Missing(const SocketBuffer& buffer) const;

 private:
  struct Message {  // to be sent when it is permitted
    uint64_t slot;
    const char* data;
    size_t bytes;
    SocketBuffer* owner;
  };
  struct Permit {
    uint64_t slot;
    uint64_t room;
  };
  struct Receive {
    uint64_t slot;
    char* data;
    size_t room;
    SocketBuffer* owner;
    bool permitted = false;  // a permit was sent
    bool offered = false;    // its message was offered
  };
  struct Arrival {  // a message without a receive yet
    uint64_t slot;
    uint64_t bytes;
    KeptMessages::Memory data;  // null if the message is only offered
    bool complete = false;
    bool eager = false;
  };
  char* Begin(const FrameHeader& header) override;
  void End() override;
  char* BeginMessage(const FrameHeader& header);
  char* BeginBody(const FrameHeader& header);
  char* BeginReceive(size_t index, uint64_t bytes);
  char* Keep(Arrival& arrival);
  void TakeOffer(const FrameHeader& header);
  void TakePermit(const FrameHeader& header);
  void TakeArrival(size_t index, const Receive& receive);
  void PermitTo(Receive& receive);
  void UsePermit(const FrameHeader& header);
  void Consume(uint64_t bytes);
  size_t FindReceive(uint64_t slot, bool offered);
  void SetEvents();
  template <class Fn>
  void ForEachOwner(Fn fn) const;

  SocketContext& context_;
  const int rank_;
  std::string name_;
  std::unique_ptr<gloo::transport::Address> address_;
  Socket socket_;
  std::string error_ = "is not connected";
  FrameWriter writer_;
  FrameReader reader_;
  bool wants_write_ = false;
  bool write_failed_ = false;
  std::vector<Message> messages_;  // offered, not permitted
  std::vector<Permit> permits_;    // from the other side, unused
  uint64_t unconsumed_ = 0;        // bytes of small messages, with headers, that the other side has not taken
  std::vector<Receive> receives_;  // posted, not begun
  std::vector<Arrival> arrivals_;
  std::vector<Permit> given_;  // to the other side, unused
  // Bytes of small messages that are kept here, and bytes taken that the other side does not know of yet.
  uint64_t kept_ = 0, credit_ = 0;
  SocketBuffer* receiving_ = nullptr;   // the owner of the memory for the current payload
  bool keeping_ = false;                // the current payload goes to an arrival
  std::vector<SocketBuffer*> written_;  // a reused list
};

}  // namespace weft
