// SocketPair: Gloo's connection to one other rank, over a socket that is connected and proven already.
//
// The n-th message of a slot goes to the n-th receive of that slot. A small one is sent at once and kept by the
// receiver until it is asked for, while all that are kept fit into a window. For a larger one the receiver first
// announces where it goes, so that it is read straight into its memory:
//
//   receive posted first:  kPermit ->, <- kDirect         message posted first:  <- kOffer, kPermit ->, <- kBody
//
// All functions but those of Gloo's interface are called under the context's lock.
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
  static constexpr size_t kEager = 16 << 10;    // the largest message that is sent unasked
  static constexpr uint64_t kWindow = 1 << 20;  // of such messages that the other side has not taken, headers included

  SocketPair(SocketContext& context, int rank);
  ~SocketPair() override;

  // Gloo's interface. A pair is given its socket by SocketContext::Adopt, so it connects nowhere; and it has no buffers
  // that belong to one pair and no blocking mode, which only Gloo's former algorithms use. These throw.
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

  // Throw gloo::IoException when the connection is gone.
  void Send(uint64_t slot, const char* data, size_t bytes, SocketBuffer* owner);
  void Recv(uint64_t slot, char* data, size_t room, SocketBuffer* owner);
  bool HasArrival(uint64_t slot) const;
  void Flush();
  void HandleEvents(uint32_t events);
  // Ends the connection; what is under way fails with the error.
  void Fail(const std::string& error);
  bool Uses(const SocketBuffer& buffer) const;
  // What the buffer still waits for from this rank, "rank 2 has not sent 16 bytes"; or "".
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
    bool permitted = false;  // the other side has been told
    bool offered = false;    // its message is known
  };
  struct Arrival {  // not asked for yet
    uint64_t slot;
    uint64_t bytes;
    KeptMessages::Memory data;  // null: offered
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
  std::vector<Permit> permits_;    // of the other side, not used
  uint64_t unconsumed_ = 0;        // small messages and their headers that the other side has not taken
  std::vector<Receive> receives_;  // posted, not begun
  std::vector<Arrival> arrivals_;
  std::vector<Permit> given_;           // to the other side, not used
  uint64_t kept_ = 0, credit_ = 0;      // small messages that are kept here; that were taken, which it is not told yet
  SocketBuffer* receiving_ = nullptr;   // the owner of the memory that a payload goes to
  bool keeping_ = false;                // a payload goes to an arrival
  std::vector<SocketBuffer*> written_;  // a list that is used again
};

}  // namespace weft
