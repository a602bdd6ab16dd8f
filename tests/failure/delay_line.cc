// delay_line MICROSECONDS A B [C D ...]: simulates a long cable between the network interfaces A and B, another one
// between C and D, and so on. A frame that arrives at one end leaves the other end MICROSECONDS later, in both
// directions. Prints "ready" when it listens, and runs until a signal ends it. For kernels without netem
// (namespaces.sh).
#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// Each frame has the kernel's struct virtio_net_hdr in front, for PACKET_VNET_HDR. Its header, linux/virtio_net.h, is
// not valid C++.
constexpr size_t kHeaderBytes = 10;
// A frame of up to 64 KiB. A network card would cut it into packets, as its header describes.
constexpr size_t kLargestFrame = kHeaderBytes + ETH_HLEN + (64 << 10);
// Room for frames that this process has not read yet, and for frames that wait in the switch after it has sent them.
constexpr int kQueueBytes = 32 << 20;

void Check(bool ok, std::string_view what) {
  if (!ok) throw std::system_error(errno, std::generic_category(), std::string(what));
}

// An interface that is down or full loses frames, as a cable does.
bool IsLoss(int error) { return error == ENETDOWN || error == ENOBUFS || error == EAGAIN; }

// Opens a socket that reads and writes whole frames of an interface, each after its header. Frames between namespaces
// have not been cut into packets and have no checksums yet. The header passes that remaining work on.
int OpenInterface(const char* name) {
  int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  Check(fd >= 0, "cannot open a packet socket");
  const int on = 1;
  auto set = [&](int level, int option, const int& value) {
    Check(setsockopt(fd, level, option, &value, sizeof(value)) == 0,
          fmt::format("{}: cannot set option {}", name, option));
  };
  set(SOL_PACKET, PACKET_VNET_HDR, on);
  set(SOL_PACKET, PACKET_IGNORE_OUTGOING, on);
  set(SOL_SOCKET, SO_RCVBUFFORCE, kQueueBytes);
  set(SOL_SOCKET, SO_SNDBUFFORCE, kQueueBytes);
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = int(if_nametoindex(name));
  Check(at.sll_ifindex > 0, fmt::format("no interface {}", name));
  Check(bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0, fmt::format("{}: cannot listen", name));
  return fd;
}

// The frames that travel in one direction.
class Direction {
 public:
  Direction(int from, int to, Clock::duration delay) : from_(from), to_(to), delay_(delay) {}

  int from() const { return from_; }
  // Returns when the next frame arrives, or nothing if no frame is under way.
  std::optional<Clock::time_point> Next() const {
    return frames_.empty() ? std::nullopt : std::optional(frames_.front().due);
  }

  // Reads the frames that wait at this end.
  void Take() {
    for (;;) {
      ssize_t size = recv(from_, buffer_.data(), buffer_.size(), MSG_TRUNC);
      if (size < 0 && IsLoss(errno)) return;
      Check(size >= 0, "cannot read a frame");
      if (size_t(size) > buffer_.size()) throw std::runtime_error(fmt::format("a frame has {} bytes", size));
      frames_.push_back({Clock::now() + delay_, {buffer_.begin(), buffer_.begin() + size}});
    }
  }

  // Sends the frames that have arrived at the other end.
  void Deliver() {
    for (; !frames_.empty() && frames_.front().due <= Clock::now(); frames_.pop_front()) {
      const std::vector<char>& bytes = frames_.front().bytes;
      Check(send(to_, bytes.data(), bytes.size(), 0) >= 0 || IsLoss(errno), "cannot write a frame");
    }
  }

 private:
  struct Frame {
    Clock::time_point due;
    std::vector<char> bytes;
  };
  int from_, to_;
  Clock::duration delay_;
  std::deque<Frame> frames_;
  std::vector<char> buffer_ = std::vector<char>(kLargestFrame);
};

// Waits until a frame can be read at any end, or until one under way arrives.
void Wait(const std::vector<Direction>& directions) {
  std::vector<pollfd> ends;
  std::optional<Clock::time_point> first;
  for (const Direction& direction : directions) {
    ends.push_back({direction.from(), POLLIN, 0});
    if (auto next = direction.Next()) first = std::min(first.value_or(*next), *next);
  }
  timespec left{};
  if (first) {
    auto ns = std::max(Clock::duration::zero(), *first - Clock::now()).count();
    left = {ns / 1'000'000'000, ns % 1'000'000'000};
  }
  Check(ppoll(ends.data(), ends.size(), first ? &left : nullptr, nullptr) >= 0 || errno == EINTR, "cannot wait");
}

void Carry(std::vector<Direction> directions) {
  for (;;) {
    Wait(directions);
    for (Direction& direction : directions) {
      direction.Take();
      direction.Deliver();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  int64_t delay = -1;
  std::string_view text = argc > 1 ? argv[1] : "";
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), delay);
  if (argc < 4 || argc % 2 != 0 || error != std::errc() || end != text.data() + text.size() || delay < 0) {
    fmt::print(stderr, "usage: delay_line MICROSECONDS A B [C D ...], where A and B are network interfaces\n");
    return 2;
  }
  try {
    std::vector<Direction> directions;
    for (int i = 2; i < argc; i += 2) {
      int a = OpenInterface(argv[i]), b = OpenInterface(argv[i + 1]);
      directions.emplace_back(a, b, std::chrono::microseconds(delay));
      directions.emplace_back(b, a, std::chrono::microseconds(delay));
    }
    fmt::print("ready\n");
    std::fflush(stdout);
    Carry(std::move(directions));
  } catch (const std::exception& e) {
    fmt::print(stderr, "delay_line: {}\n", e.what());
  }
  return 1;
}
