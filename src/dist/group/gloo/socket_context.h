// SocketContext and SocketDevice: Gloo's transport over sockets that Weft has connected and whose other ends have
// proved themselves (PeerNetwork). Gloo's own TCP transport takes whoever connects to its listeners first.
//
// Weft's collectives use unbound buffers of one context: sends to a rank, receives from a rank, both by slot, and waits
// for them (GlooChannel). The rest of Gloo's interface, for example RecvFromAny, is kept whole so that Gloo's own
// algorithms run over it too; socket_transport_test runs them.
//
// It has no thread of its own. A rank that waits moves the bytes of all its pairs: one waiting thread drives the
// sockets, and the others sleep until it has done what they wait for, or leaves that to one of them. So a message costs
// one wake and no hand-over, and nothing moves, beyond what the kernel buffers hold, while no rank waits.
#pragma once
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/dist/group/gloo/socket_buffer.h"
#include "weft/dist/group/gloo/socket_pair.h"
#include "weft/dist/net/tcp_socket.h"

namespace weft {

class SocketContext final : public gloo::transport::Context, public std::enable_shared_from_this<SocketContext> {
 public:
  using milliseconds = std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;

  // Throws Error when the system has no file descriptors left.
  SocketContext(int rank, int size);
  ~SocketContext() override;

  // A pair without a socket.
  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override;
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* ptr, size_t size) override;
  // The socket of a pair, and how messages name its other side, "rank 2".
  void Adopt(int rank, Socket socket, std::string name);

  // Of buffers and pairs. What follows is called under the lock.
  std::unique_lock<std::mutex> Lock() { return std::unique_lock(lock_); }
  // Throws gloo::InvalidOperationException when there is no such pair.
  SocketPair& pair(int rank);
  KeptMessages& kept_messages() { return kept_; }
  void RecvFromAny(std::vector<int> ranks, uint64_t slot, char* data, size_t room, SocketBuffer* owner);
  // Gives a receive from any of several ranks, which this rank may answer, to its pair. False when there is none.
  bool ClaimReceive(int rank, uint64_t slot);
  // Waits until over() and drives the sockets meanwhile. False at the timeout. One thread drives, the others wait for
  // it; when it has what it waits for, one of them goes on.
  template <class Over>
  bool Await(std::unique_lock<std::mutex>& lock, milliseconds timeout, const Over& over) {
    auto deadline = Clock::now() + timeout;
    for (FlushPosted(); !over();) {
      if (Clock::now() >= deadline) return false;
      if (driven_) {
        Sleep(lock, deadline);
        continue;
      }
      driven_ = true;
      do {
        Drive(lock, deadline);
        FlushPosted();
      } while (!over() && Clock::now() < deadline);
      driven_ = false;
      changed_.notify_all();
    }
    return true;
  }
  void Wake();  // those that wait look again
  // A pair has something to write, which can wait until somebody waits.
  void Post(SocketPair& pair);
  // The events of a pair's socket that wake whoever drives. False when the system cannot.
  bool Watch(const SocketPair& pair, uint32_t events, bool is_new);
  void Forget(SocketBuffer& buffer);
  void FailAll(const std::string& error);
  std::string Missing(const SocketBuffer& buffer);

 private:
  struct AnyReceive {
    std::vector<int> ranks;
    uint64_t slot;
    char* data;
    size_t room;
    SocketBuffer* owner;
  };
  void FlushPosted();
  void Sleep(std::unique_lock<std::mutex>& lock, Clock::time_point deadline);
  void Drive(std::unique_lock<std::mutex>& lock, Clock::time_point deadline);

  KeptMessages kept_{SocketPair::kEager};
  std::mutex lock_;
  std::condition_variable changed_;
  Socket epoll_, wake_;
  bool driven_ = false;   // a thread drives the sockets
  bool polling_ = false;  // it waits for them, without the lock
  int asleep_ = 0;        // threads that wait for it
  std::vector<SocketPair*> posted_;
  std::vector<AnyReceive> receives_;
};

class SocketDevice final : public gloo::transport::Device {
 public:
  std::string str() const override { return "sockets"; }
  const std::string& getPCIBusID() const override { return pci_bus_id_; }
  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

 private:
  std::string pci_bus_id_;  // of no device
};

}  // namespace weft
