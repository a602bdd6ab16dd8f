// Sockets: what a few bytes need to get from one rank to another over TCP, with deadlines.
#pragma once
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace weft {

// An owned file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
};
// "127.0.0.1:29500", "[::1]:29500"
std::string ToString(const Address& address);
bool IsAnyAddress(const Address& address);  // all interfaces
// Only processes of this host can reach it.
bool IsLoopback(const Address& address);
// The addresses of rank 0's host, or of a numeric address. Throws Error when there are none.
std::vector<Address> Resolve(const std::string& host, int port);
// Listens on the first of these addresses that this host has, without blocking in accept; port 0 takes a free one.
// Throws Error when it is one of all interfaces, or another process holds it: the next address does not do then, as
// callers would find that process at the first one. `who`: "rank 0", for the error.
Socket OpenListener(const std::vector<Address>& addresses, const std::string& who = "this process");
// The same for the addresses of a host.
Socket OpenListener(const std::string& host, int port, const std::string& who = "this process");
// What both ends of a connection know of the end that listens: its address, in IPv6's form, and its port. `local` says
// whether that end is this one. "" when the connection is gone.
std::string ListeningEnd(const Socket& connection, bool local);
// Where a socket listens.
int PortOf(const Socket& listener);
// The result of connecting to an address: a connected socket, or the error. Throws nothing.
struct Connection {
  Socket socket;
  int error = 0;          // ETIMEDOUT at the deadline
  bool is_local = false;  // this process could not open a socket; whether anybody listens is unknown
};
Connection ConnectTo(const Address& address, std::chrono::steady_clock::time_point deadline);
// Small messages leave at once.
void NoDelay(const Socket& s);

// True when ready, false at the deadline.
bool WaitReady(int fd, short events, std::chrono::steady_clock::time_point deadline);
// These two throw Error with `who` when the peer is gone or the deadline passes.
void WriteAll(int fd, const void* data, size_t bytes, std::chrono::steady_clock::time_point deadline,
              const std::string& who);
void ReadAll(int fd, void* data, size_t bytes, std::chrono::steady_clock::time_point deadline, const std::string& who);

}  // namespace weft
