#include "dist/side_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <sstream>
#include <system_error>

#include "dist/network_interface.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint32_t kMaxMessage = 16 << 20;  // more is not one of ours
constexpr size_t kMaxGuests = 64;           // that have said nothing yet; more, and the oldest is dropped
constexpr milliseconds kGuestTimeout{500};  // to ask its question and take the answer, for one that knows the secret

// Connected, or why not. Reach::kAnswered: so far.
SideChannel::Reach Connect(const SideChannel::Peer& peer, Clock::time_point deadline, Socket* connected) {
  Address address = Resolve(peer.address, peer.port).at(0);
  Socket s(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (!s) return SideChannel::Reach::kSilent;
  if (connect(s.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) error = errno;
  if (error == EINPROGRESS) {
    if (!WaitReady(s.fd(), POLLOUT, deadline)) return SideChannel::Reach::kSilent;
    socklen_t length = sizeof(error);
    getsockopt(s.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == ECONNREFUSED || error == ECONNRESET) return SideChannel::Reach::kClosed;
  if (error) return SideChannel::Reach::kSilent;  // its host, or the way there, is what is wrong
  NoDelay(s);
  *connected = std::move(s);
  return SideChannel::Reach::kAnswered;
}

// From how many bytes on the socket counts as readable.
void WakeAt(const Socket& s, int bytes) { setsockopt(s.fd(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes)); }

std::string ReadText(const Socket& s, size_t bytes, Clock::time_point deadline) {
  WEFT_CHECK(bytes <= kMaxMessage, "side channel: a message that is too long");
  std::string text(bytes, '\0');
  ReadAll(s.fd(), text.data(), bytes, deadline, "a rank");
  return text;
}

}  // namespace

SideChannel::~SideChannel() { Close(); }

void SideChannel::Close() {
  uint64_t one = 1;
  if (thread_.joinable() && write(quit_.fd(), &one, sizeof(one)) == ssize_t(sizeof(one))) thread_.join();
  listener_ = Socket();
}

void SideChannel::Open() {
  Peer mine{bootstrap_.host(), int(getpid()), "-", 0};
  if (size() > 1) {
    mine.address = ListenAddress(bootstrap_.local_size() != size());
    listener_ = OpenListener(mine.address, 0);
    mine.port = PortOf(listener_);
  }
  Exchange(mine);
  if (size() == 1) return;
  quit_ = Socket(eventfd(0, EFD_CLOEXEC));
  WEFT_CHECK(quit_, "side channel: no event to end it by");
  thread_ = std::thread([this] { Serve(); });
}

// The secret is rank 0's. Questions that come before the thread runs wait at the listener.
void SideChannel::Exchange(const Peer& mine) {
  WEFT_CHECK(getrandom(secret_.data(), secret_.size(), 0) == ssize_t(secret_.size()), "side channel: no random bytes");
  auto all = bootstrap_.AllGather(std::string(secret_.data(), secret_.size()) +
                                  fmt::format("{} {} {} {}", mine.pid, mine.port, mine.address, mine.host));
  for (const std::string& text : all) {
    WEFT_CHECK(text.size() > secret_.size(), "side channel: a rank sent no address");
    Peer& peer = peers_.emplace_back();
    std::istringstream(text.substr(secret_.size())) >> peer.pid >> peer.port >> peer.address >> peer.host;
  }
  std::copy_n(all[0].begin(), secret_.size(), secret_.begin());
}

// Guests are answered in the order in which they came, each once its header is there: a stranger who says nothing, or
// half a word, holds up nobody.
void SideChannel::Serve() {
  std::vector<Socket> guests;
  for (;;) {
    std::vector<pollfd> polls{{listener_.fd(), POLLIN, 0}, {quit_.fd(), POLLIN, 0}};
    for (const Socket& guest : guests) polls.push_back({guest.fd(), POLLIN, 0});
    poll(polls.data(), polls.size(), -1);
    if (polls[1].revents) return;
    std::vector<Socket> waiting;
    for (size_t i = 0; i < guests.size(); i++) {
      if (polls[i + 2].revents)
        AnswerGuest(guests[i]);
      else
        waiting.push_back(std::move(guests[i]));
    }
    guests = std::move(waiting);
    if (polls[0].revents) Accept(guests);
  }
}

void SideChannel::Accept(std::vector<Socket>& guests) const {
  Socket guest(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!guest) return;
  WakeAt(guest, sizeof(Header));
  if (guests.size() == kMaxGuests) guests.erase(guests.begin());
  guests.push_back(std::move(guest));
}

void SideChannel::AnswerGuest(const Socket& guest) const {
  Clock::time_point deadline = Clock::now() + kGuestTimeout;
  try {
    Header header{};
    ReadAll(guest.fd(), &header, sizeof(header), deadline, "a rank");  // is there, or the guest is gone
    if (header.secret != secret_) return;
    WakeAt(guest, 1);
    std::string answer = AnswerTo(header.kind, ReadText(guest, header.bytes, deadline));
    auto bytes = uint32_t(answer.size());
    WriteAll(guest.fd(), &bytes, sizeof(bytes), deadline, "a rank");
    WriteAll(guest.fd(), answer.data(), answer.size(), deadline, "a rank");
  } catch (const std::exception&) {  // it asks again or goes without
  }
}

std::string SideChannel::AnswerTo(char kind, std::string_view question) const {
  auto it = answers_.find(kind);
  return it == answers_.end() ? "" : it->second(question);
}

SideChannel::Reply SideChannel::Ask(int rank, char kind, std::string_view question, milliseconds timeout) const {
  if (rank == this->rank()) return {Reach::kAnswered, AnswerTo(kind, question)};
  return AskOver(rank, kind, question, timeout);
}

SideChannel::Reply SideChannel::AskOver(int rank, char kind, std::string_view question, milliseconds timeout) const {
  if (peers_.empty() || size() == 1) return {};  // nobody listens
  Clock::time_point deadline = Clock::now() + timeout;
  try {
    Socket s;
    if (Reach reach = Connect(peer(rank), deadline, &s); reach != Reach::kAnswered) return {reach, ""};
    Header header{secret_, kind, uint32_t(question.size())};
    WriteAll(s.fd(), &header, sizeof(header), deadline, "a rank");
    WriteAll(s.fd(), question.data(), question.size(), deadline, "a rank");
    uint32_t bytes = 0;
    ReadAll(s.fd(), &bytes, sizeof(bytes), deadline, "a rank");
    return {Reach::kAnswered, ReadText(s, bytes, deadline)};
  } catch (const std::exception&) {
    return {Clock::now() < deadline ? Reach::kClosed : Reach::kSilent, ""};
  }
}

std::vector<SideChannel::Reply> SideChannel::AskAll(char kind, std::string_view question, milliseconds timeout) const {
  std::vector<Reply> replies(static_cast<size_t>(size()));
  ForAllRanks(size(), [&](int r) { replies[size_t(r)] = Ask(r, kind, question, timeout); });
  return replies;
}

void ForAllRanks(int size, const std::function<void(int rank)>& fn) {
  constexpr int kThreads = 64;
  std::atomic<int> next{0};
  auto work = [&] {
    for (int r = next++; r < size; r = next++) fn(r);
  };
  std::vector<std::thread> threads;
  try {
    for (int t = 0; t < std::min(size, kThreads); t++) threads.emplace_back(work);
  } catch (const std::system_error&) {  // a limit allows no more; this thread does what is left
    work();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace weft
