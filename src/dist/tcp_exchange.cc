#include "dist/tcp_exchange.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "core/base/message.h"
#include "dist/rank_list.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kMagic = 0x3178'6574'6665'7721;  // changes with the protocol
constexpr uint64_t kMaxMessage = 64 << 20;          // a length beyond this is not one of ours
constexpr milliseconds kHelloTimeout{5000};         // a stranger that says nothing is dropped
constexpr milliseconds kNote{5000};                 // of waiting, until a line says so

struct Hello {
  uint64_t magic;
  uint32_t rank, size;
};

// A connection whose hello is not complete yet.
struct Guest {
  Socket socket;
  Hello hello{};
  size_t have = 0;
  Clock::time_point until;
};

// A line on stderr, once, when a wait takes long.
class WaitNote {
 public:
  template <class Text>
  void Say(const Text& text) {
    if (said_ || Clock::now() < at_) return;
    said_ = true;
    PrintStderr("note: {}\n", text());
  }

 private:
  Clock::time_point at_ = Clock::now() + kNote;
  bool said_ = false;
};

// Reads what there is. False when the guest is to be dropped.
bool ReadHello(Guest& guest) {
  ssize_t n = recv(guest.socket.fd(), reinterpret_cast<char*>(&guest.hello) + guest.have, sizeof(Hello) - guest.have,
                   MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  guest.have += size_t(n);
  return n > 0;
}

}  // namespace

TcpExchange::TcpExchange(int rank, int size, const std::string& host, int port, milliseconds timeout)
    : rank_(rank), size_(size), timeout_(timeout) {
  Deadline deadline = Clock::now() + timeout;
  if (rank == 0)
    Listen(host, port, deadline);
  else
    Connect(host, port, deadline);
  AllGather("", deadline);  // all have come, or all get an error
}

void TcpExchange::Listen(const std::string& host, int port, Deadline deadline) {
  peers_.resize(size_t(size_));
  Socket listener = OpenListener(host, port);
  std::vector<Guest> guests;
  WaitNote note;
  for (int missing = size_ - 1; missing > 0;) {
    std::vector<pollfd> polls{{listener.fd(), POLLIN, 0}};
    for (const Guest& g : guests) polls.push_back({g.socket.fd(), POLLIN, 0});
    poll(polls.data(), polls.size(), 100);
    for (size_t i = 0; i < guests.size(); i++) {
      Guest& g = guests[i];
      bool keep = Clock::now() < g.until && (!polls[i + 1].revents || ReadHello(g));
      if (keep && g.have < sizeof(Hello)) continue;
      const Hello& h = g.hello;
      bool ours = keep && h.magic == kMagic && h.size == uint32_t(size_) && h.rank > 0 && h.rank < uint32_t(size_);
      if (ours && !peers_[h.rank]) {
        peers_[h.rank] = std::move(g.socket);
        NoDelay(peers_[h.rank]);
        missing--;
      }
      g.socket = Socket();
    }
    std::erase_if(guests, [](const Guest& g) { return !g.socket; });
    if (polls[0].revents)
      if (Socket s(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC)); s)
        guests.push_back({std::move(s), {}, 0, Clock::now() + kHelloTimeout});
    if (missing == 0) return;
    note.Say([&] {
      return fmt::format("rank 0 waits at {}:{} for these of the {} ranks: {}", host, port, size_, Absent());
    });
    if (Clock::now() >= deadline)
      Fail(fmt::format("bootstrap: after {} ms these of the {} ranks have not connected to {}:{}: {}", timeout_.count(),
                       size_, host, port, Absent()));
  }
}

std::string TcpExchange::Absent() const {
  std::vector<int> absent;
  for (int r = 1; r < size_; r++)
    if (!peers_[size_t(r)]) absent.push_back(r);
  return RankList(absent);
}

void TcpExchange::Connect(const std::string& host, int port, Deadline deadline) {
  int error = 0;
  WaitNote note;
  for (milliseconds pause{10};; pause = std::min(pause * 2, milliseconds(500))) {
    for (const Address& address : Resolve(host, port)) {
      Socket s(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
      timeval patience{5, 0};  // bounds connect() where packets vanish
      setsockopt(s.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
      if (!s || connect(s.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
        error = errno;
        continue;
      }
      NoDelay(s);
      Hello hello{kMagic, uint32_t(rank_), uint32_t(size_)};
      WriteAll(s.fd(), &hello, sizeof(hello), deadline, "rank 0");
      peers_.push_back(std::move(s));
      return;
    }
    WEFT_CHECK(Clock::now() + pause < deadline,
               fmt::format("bootstrap: rank {} could not connect to rank 0 at {}:{} within {} ms: {}", rank_, host,
                           port, timeout_.count(), std::strerror(error)));
    note.Say(
        [&] { return fmt::format("rank {} waits for rank 0 at {}:{}: {}", rank_, host, port, std::strerror(error)); });
    std::this_thread::sleep_for(pause);
  }
}

void TcpExchange::SendTo(int rank, std::string_view bytes, Deadline deadline) {
  uint64_t length = bytes.size();
  std::string who = fmt::format("rank {}", rank);
  WriteAll(peers_[size_t(rank)].fd(), &length, sizeof(length), deadline, who);
  WriteAll(peers_[size_t(rank)].fd(), bytes.data(), bytes.size(), deadline, who);
}

std::string TcpExchange::Receive(int rank, Deadline deadline) {
  uint64_t length = 0;
  std::string who = fmt::format("rank {}", rank);
  ReadAll(peers_[size_t(rank)].fd(), &length, sizeof(length), deadline, who);
  WEFT_CHECK(length <= kMaxMessage,
             fmt::format("bootstrap: {} sends a message of {} bytes; it does not speak this protocol", who, length));
  std::string bytes(length, 0);
  ReadAll(peers_[size_t(rank)].fd(), bytes.data(), length, deadline, who);
  return bytes;
}

// In the order in which they come: a rank that dies is noticed while others are awaited.
void TcpExchange::Collect(std::vector<std::string>& all, Deadline deadline) {
  std::vector<pollfd> polls{{-1, POLLIN, 0}};
  for (int r = 1; r < size_; r++) polls.push_back({peers_[size_t(r)].fd(), POLLIN, 0});
  for (int missing = size_ - 1; missing > 0;) {
    auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
    poll(polls.data(), polls.size(), int(std::clamp<int64_t>(left, 0, 1000)));
    std::vector<int> late;
    for (int r = 1; r < size_; r++) {
      pollfd& p = polls[size_t(r)];
      if (p.fd >= 0 && p.revents) {
        all[size_t(r)] = Receive(r, deadline);
        p.fd = -1;  // poll leaves it out
        missing--;
      } else if (p.fd >= 0) {
        late.push_back(r);
      }
    }
    WEFT_CHECK(missing == 0 || Clock::now() < deadline,
               fmt::format("bootstrap: these of the {} ranks are late: {}", size_, RankList(late)));
  }
}

std::vector<std::string> TcpExchange::AllGather(std::string_view mine, Deadline deadline) {
  std::vector<std::string> all(static_cast<size_t>(size_), std::string(mine));
  if (rank_ == 0) {
    Collect(all, deadline);
    for (int r = 1; r < size_; r++)
      for (const std::string& bytes : all) SendTo(r, bytes, deadline);
  } else {
    SendTo(0, mine, deadline);
    for (std::string& bytes : all) bytes = Receive(0, deadline);
  }
  return all;
}

}  // namespace weft
