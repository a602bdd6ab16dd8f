// Sockets: blocking transfers of a few bytes between ranks over TCP, with deadlines.
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
bool IsAnyAddress(const Address& address);  // whether it stands for all interfaces
// Whether only processes of this host can reach it.
bool IsLoopback(const Address& address);
// Returns the addresses of a host name or of a numeric address. Throws Error, which speaks of rank 0's host, if there
// are none.
std::vector<Address> Resolve(const std::string& host, int port);
// Listens on the first of these addresses that this host has. The socket is non-blocking, and port 0 takes a free port.
// Throws Error if that address stands for all interfaces or another process holds it. It does not try the next address
// in that case, because callers would reach the other process at the first one. `who` ("rank 0") is for the error.
Socket OpenListener(const std::vector<Address>& addresses, const std::string& who = "this process");
// As above, for the addresses of a host.
Socket OpenListener(const std::string& host, int port, const std::string& who = "this process");
// Returns what both ends of a connection know of the listening end: its address in IPv6 form, and its port. `local`
// says whether this process is that end. Returns "" if the connection is closed.
std::string ListeningEnd(const Socket& connection, bool local);
// Returns the port of a listening socket.
int PortOf(const Socket& listener);
// A connected socket, or an error. ConnectTo does not throw.
struct Connection {
  Socket socket;
  int error = 0;          // an errno; ETIMEDOUT at the deadline
  bool is_local = false;  // this process could not open a socket, so nothing is known about the address
};
Connection ConnectTo(const Address& address, std::chrono::steady_clock::time_point deadline);
// Disables Nagle's algorithm, so that small messages are sent at once.
void NoDelay(const Socket& s);

// Returns true when the descriptor is ready, false at the deadline.
bool WaitReady(int fd, short events, std::chrono::steady_clock::time_point deadline);
// These two throw Error with `who` if the peer has closed the connection or the deadline passes.
void WriteAll(int fd, const void* data, size_t bytes, std::chrono::steady_clock::time_point deadline,
              const std::string& who);
void ReadAll(int fd, void* data, size_t bytes, std::chrono::steady_clock::time_point deadline, const std::string& who);

}  // namespace weft
