#include "weft/dist/net/tcp_socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "weft/core/base/error.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// `get` is getsockname or getpeername.
Address EndOf(const Socket& socket, int (*get)(int, sockaddr*, socklen_t*)) {
  Address end;
  end.length = sizeof(end.storage);
  if (get(socket.fd(), reinterpret_cast<sockaddr*>(&end.storage), &end.length) != 0) return {};
  return end;
}

int PortOf(const Address& a) {
  return ntohs(a.family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(a.storage).sin6_port
                                      : reinterpret_cast<const sockaddr_in&>(a.storage).sin_port);
}

// Returns an empty socket, with the reason in errno, if it cannot listen.
Socket ListenAt(const Address& address) {
  Socket s(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!s) return s;
  int one = 1;
  setsockopt(s.fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(s.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0 &&
      listen(s.fd(), 1024) == 0)
    return s;
  int error = errno;
  s = Socket();
  errno = error;
  return s;
}

// Returns advice on a listener that cannot be opened, to append to the error.
const char* Advice(int error, int port) {
  if (error == EADDRINUSE && port != 0) return "; another program or job holds this port: choose another MASTER_PORT";
  if (error == EACCES) return "; choose a MASTER_PORT above 1023";
  if (error == EADDRNOTAVAIL) return "; no interface of this host has this address: is this the host of rank 0?";
  if (error == EMFILE) return "; allow more open files, for example with ulimit -n 1024";
  return "";
}

}  // namespace

std::string ToString(const Address& a) {
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&a.storage), a.length, host, sizeof(host), port, sizeof(port),
              NI_NUMERICHOST | NI_NUMERICSERV);
  return a.family() == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

bool IsAnyAddress(const Address& a) {
  if (a.family() == AF_INET) return reinterpret_cast<const sockaddr_in&>(a.storage).sin_addr.s_addr == INADDR_ANY;
  return a.family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(a.storage).sin6_addr);
}

bool IsLoopback(const Address& a) {
  if (a.family() == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(a.storage).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  return a.family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(a.storage).sin6_addr);
}

Connection ConnectTo(const Address& address, Clock::time_point deadline) {
  Connection to{Socket(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  if (!to.socket) return {Socket(), errno, /*is_local=*/true};
  if (connect(to.socket.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0)
    to.error = errno;
  if (to.error == EINPROGRESS) {
    socklen_t length = sizeof(to.error);
    if (!WaitReady(to.socket.fd(), POLLOUT, deadline))
      to.error = ETIMEDOUT;
    else
      getsockopt(to.socket.fd(), SOL_SOCKET, SO_ERROR, &to.error, &length);
  }
  if (to.error) return {Socket(), to.error};
  NoDelay(to.socket);
  return to;
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

bool WaitReady(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    if (left < 0) return false;
    pollfd p{fd, events, 0};
    int n = poll(&p, 1, int(std::min<int64_t>(left + 1, 1000)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

void WriteAll(int fd, const void* data, size_t bytes, Clock::time_point deadline, const std::string& who) {
  const char* p = static_cast<const char*>(data);
  while (bytes) {
    WEFT_CHECK(WaitReady(fd, POLLOUT, deadline), fmt::format("bootstrap: timed out sending to {}", who));
    ssize_t n = send(fd, p, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    WEFT_CHECK(n > 0, fmt::format("bootstrap: {} is gone: {}", who, std::strerror(errno)));
    p += n;
    bytes -= size_t(n);
  }
}

void ReadAll(int fd, void* data, size_t bytes, Clock::time_point deadline, const std::string& who) {
  char* p = static_cast<char*>(data);
  while (bytes) {
    WEFT_CHECK(WaitReady(fd, POLLIN, deadline), fmt::format("bootstrap: timed out waiting for {}", who));
    ssize_t n = recv(fd, p, bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    WEFT_CHECK(n > 0, fmt::format("bootstrap: {} is gone: {}", who,
                                  n == 0 ? "it closed the connection" : std::strerror(errno)));
    p += n;
    bytes -= size_t(n);
  }
}

std::vector<Address> Resolve(const std::string& host, int port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  WEFT_CHECK(rc == 0, fmt::format("bootstrap: cannot resolve \"{}\", the host of rank 0 (MASTER_ADDR): {}", host,
                                  gai_strerror(rc)));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  std::vector<Address> addresses;
  for (addrinfo* a = list; a; a = a->ai_next) {
    Address address;
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.length = a->ai_addrlen;
    addresses.push_back(address);
  }
  return addresses;
}

Socket OpenListener(const std::vector<Address>& addresses, const std::string& who) {
  std::string fault = "bootstrap: there is no address to listen at";
  for (const Address& address : addresses) {
    WEFT_CHECK(!IsAnyAddress(address),
               fmt::format("bootstrap: {} is to listen at {}; MASTER_ADDR must name one interface, not all of them",
                           who, ToString(address)));
    Socket s = ListenAt(address);
    if (s) return s;
    int error = errno;
    fault = fmt::format("bootstrap: {} cannot listen at {}: {}{}", who, ToString(address), std::strerror(error),
                        Advice(error, PortOf(address)));
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) break;
  }
  Fail(fault);
}

Socket OpenListener(const std::string& host, int port, const std::string& who) {
  return OpenListener(Resolve(host, port), who);
}

int PortOf(const Socket& listener) { return PortOf(EndOf(listener, getsockname)); }

std::string ListeningEnd(const Socket& connection, bool local) {
  Address end = EndOf(connection, local ? getsockname : getpeername);
  in6_addr host{};
  if (end.family() == AF_INET6) {
    host = reinterpret_cast<const sockaddr_in6&>(end.storage).sin6_addr;
  } else if (end.family() == AF_INET) {  // mapped, as an IPv6 socket sees it
    host.s6_addr[10] = host.s6_addr[11] = 0xff;
    std::memcpy(host.s6_addr + 12, &reinterpret_cast<const sockaddr_in&>(end.storage).sin_addr, 4);
  } else {
    return "";
  }
  return std::string(reinterpret_cast<const char*>(&host), sizeof(host)) + std::to_string(PortOf(end));
}

void NoDelay(const Socket& s) {
  int one = 1;
  setsockopt(s.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

}  // namespace weft
