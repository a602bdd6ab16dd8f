// SocketContext and SocketDevice: Gloo's transport over connected, authenticated sockets of PeerNetwork. Gloo's own TCP
// transport accepts any caller that connects to its listeners first.
//
// Weft's collectives use unbound buffers of one context. They send to a rank and receive from a rank, both by slot, and
// wait (GlooChannel). The rest of Gloo's interface, for example RecvFromAny, is complete, so that Gloo's own algorithms
// run on it too. socket_transport_test runs them.
//
// It has no thread of its own. A waiting rank moves the bytes of all its pairs: one waiting thread drives the sockets,
// and the others sleep until their transfers are done or one of them takes over. So a message costs one wake-up and no
// hand-over between threads. While no rank waits, only data within the kernel's buffers moves.
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

  // Throws Error if the system has no free file descriptors.
  SocketContext(int rank, int size);
  ~SocketContext() override;

  // Makes a pair without a socket.
  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override;
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* ptr, size_t size) override;
  // Gives a pair its socket. `name` is the other side in messages, "rank 2".
  void Adopt(int rank, Socket socket, std::string name);

  // For buffers and pairs. The functions below require the lock.
  std::unique_lock<std::mutex> Lock() { return std::unique_lock(lock_); }
  // Throws gloo::InvalidOperationException if there is no such pair.
  SocketPair& pair(int rank);
  KeptMessages& kept_messages() { return kept_; }
  void RecvFromAny(std::vector<int> ranks, uint64_t slot, char* data, size_t room, SocketBuffer* owner);
  // If a receive from any of several ranks matches this rank and slot, gives it to the pair. Returns false if none
  // does.
  bool ClaimReceive(int rank, uint64_t slot);
  // Waits until over() returns true and drives the sockets meanwhile. Returns false at the timeout. One thread drives
  // and the others wait for it. When its own wait is over, one of them takes over.
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
  void Wake();  // wakes waiting threads to check again
  // Marks a pair that has something to write, which can be delayed until a thread waits.
  void Post(SocketPair& pair);
  // Sets the events of a pair's socket that wake the driving thread. Returns false if the system cannot.
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
  bool polling_ = false;  // that thread polls them, without the lock
  int asleep_ = 0;        // number of threads that wait for it
  std::vector<SocketPair*> posted_;
  std::vector<AnyReceive> receives_;
};

class SocketDevice final : public gloo::transport::Device {
 public:
  std::string str() const override { return "sockets"; }
  const std::string& getPCIBusID() const override { return pci_bus_id_; }
  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

 private:
  std::string pci_bus_id_;  // always empty
};

}  // namespace weft
