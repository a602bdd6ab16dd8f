#include "weft/dist/net/acceptor.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kAcceptAtOnce = 16;       // known guests are served in between
constexpr milliseconds kNoSockets{50};  // pause when this process has no free file descriptor

}  // namespace

Acceptor::Acceptor(Socket listener, const Key& key, const std::string& who, size_t max_guests)
    : max_guests_(max_guests), random_(RandomKey()[0]), log_(std::make_unique<RefusalLog>(who)) {
  doors_.push_back({std::move(listener), key});
}

void Acceptor::Adopt(Acceptor other) {
  for (Guest& guest : other.guests_) {
    size_t door = doors_.size() + guest.door();
    guests_.push_back(std::move(guest));
    guests_.back().MoveTo(door);
  }
  for (Door& door : other.doors_) doors_.push_back(std::move(door));
}

std::vector<pollfd> Acceptor::Polls() const {
  std::vector<pollfd> polls;
  for (const Door& door : doors_) polls.push_back({door.listener.fd(), POLLIN, 0});
  for (const Guest& guest : guests_) polls.push_back({guest.socket().fd(), POLLIN, 0});
  return polls;
}

int Acceptor::PollMs() const {
  auto until = Clock::time_point::max();
  for (const Guest& guest : guests_) until = std::min(until, guest.until());
  if (guests_.empty()) return -1;
  return int(std::max(milliseconds(0), std::chrono::ceil<milliseconds>(until - Clock::now())).count());
}

// The choice is random, so that a stranger that keeps connecting cannot choose whose connection is closed.
void Acceptor::MakeRoom(const std::string& why) {
  auto one = std::find_if(guests_.begin(), guests_.end(), [](const Guest& guest) { return !guest.is_challenged(); });
  if (one == guests_.end()) one = guests_.begin() + std::ptrdiff_t(random_() % guests_.size());
  log_->Say(one->address(), why);
  guests_.erase(one);
}

// Reads before the guest is counted, because the first message of a rank has usually arrived by then.
void Acceptor::Take(Guest guest, std::vector<Guest>& proven) {
  Guest::Step step = guest.Advance(doors_[guest.door()].key);
  if (step == Guest::Step::kProven) {
    proven.push_back(std::move(guest));
  } else if (step == Guest::Step::kRefused) {
    log_->Say(guest.address(), guest.reason());
  } else if (step == Guest::Step::kWaiting && Clock::now() < guest.until()) {
    while (guests_.size() >= max_guests_)
      MakeRoom(fmt::format("{} others had not proved themselves either", max_guests_));
    guests_.push_back(std::move(guest));
  } else if (step == Guest::Step::kWaiting) {
    log_->Say(guest.address(),
              fmt::format("it {} {} ms", guest.has_spoken() ? "had not proved itself within" : "sent nothing for",
                          kPatience.count()));
  }
}

void Acceptor::Accept(size_t door, std::vector<Guest>& proven) {
  for (int i = 0; i < kAcceptAtOnce; i++) {
    sockaddr_storage from{};
    socklen_t length = sizeof(from);
    Socket guest(
        accept4(doors_[door].listener.fd(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!guest && (errno == EMFILE || errno == ENFILE)) {
      if (!guests_.empty()) MakeRoom("this process may open no more files");
      std::this_thread::sleep_for(kNoSockets);
      return;
    }
    if (!guest) return;
    NoDelay(guest);
    Take(Guest(std::move(guest), ToString(Address{from, length}), Clock::now() + kPatience, door), proven);
  }
}

std::vector<Guest> Acceptor::Serve() {
  std::vector<Guest> proven;
  for (Guest& guest : std::exchange(guests_, {})) Take(std::move(guest), proven);
  for (size_t door = 0; door < doors_.size(); door++) Accept(door, proven);
  *count_ = guests_.size();
  return proven;
}

// A caller that has given up calls again later, so its closed connection must not look like a rank that has ended.
Socket Acceptor::Welcome(Guest& guest) const {
  char byte;
  if (recv(guest.socket().fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) return {};
  return guest.Answer(doors_[guest.door()].key, Admission::kWelcome) ? guest.TakeSocket() : Socket();
}

void Acceptor::TurnAway(Guest& guest, Admission admission) {
  static_cast<void>(guest.Answer(doors_[guest.door()].key, admission));  // whether or not it arrives
  const char* why = admission == Admission::kTaken ? "is here already: two jobs use this address and port, or two "
                                                     "ranks have one number"
                                                   : "is of another job than this rank";
  log_->Say(guest.address(), fmt::format("rank {} of {} {}", guest.claim().from, guest.claim().size, why));
}

}  // namespace weft
