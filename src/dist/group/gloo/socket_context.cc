#include "weft/dist/group/gloo/socket_context.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "weft/core/base/error.h"

namespace weft {
namespace {

constexpr int kEvents = 32;                    // per poll
constexpr uint64_t kWakeEvent = ~uint64_t{0};  // other values are ranks

}  // namespace

SocketContext::SocketContext(int my_rank, int num_ranks)
    : Context(my_rank, num_ranks), epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  posted_.reserve(size_t(num_ranks));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeEvent;
  bool ok = epoll_ && wake_ && epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, wake_.fd(), &event) == 0;
  WEFT_CHECK(ok, "gloo: no file descriptors left to wait for sockets with");
}

SocketContext::~SocketContext() { pairs_.clear(); }  // before the members that the pairs use

std::unique_ptr<gloo::transport::Pair>& SocketContext::createPair(int r) {
  pairs_.at(size_t(r)) = std::make_unique<SocketPair>(*this, r);
  return pairs_[size_t(r)];
}

std::unique_ptr<gloo::transport::UnboundBuffer> SocketContext::createUnboundBuffer(void* ptr, size_t bytes) {
  return std::make_unique<SocketBuffer>(shared_from_this(), ptr, bytes);
}

void SocketContext::Adopt(int r, Socket socket, std::string name) {
  auto lock = Lock();
  pair(r).Adopt(std::move(socket), std::move(name));
}

// All pairs of this context are SocketPairs.
SocketPair& SocketContext::pair(int r) {
  bool is_there = r >= 0 && r < size && pairs_[size_t(r)];
  if (!is_there) throw gloo::InvalidOperationException(fmt::format("gloo: no pair with rank {} of {}", r, size));
  return static_cast<SocketPair&>(*pairs_[size_t(r)]);
}

void SocketContext::RecvFromAny(std::vector<int> ranks, uint64_t slot, char* data, size_t room, SocketBuffer* owner) {
  for (int r : ranks)
    if (pair(r).HasArrival(slot)) return pair(r).Recv(slot, data, room, owner);
  receives_.push_back({std::move(ranks), slot, data, room, owner});
}

bool SocketContext::ClaimReceive(int r, uint64_t slot) {
  auto found = std::find_if(receives_.begin(), receives_.end(), [&](const AnyReceive& receive) {
    return receive.slot == slot && std::count(receive.ranks.begin(), receive.ranks.end(), r);
  });
  if (found == receives_.end()) return false;
  AnyReceive receive = std::move(*found);
  receives_.erase(found);
  pair(r).Recv(slot, receive.data, receive.room, receive.owner);
  return true;
}

void SocketContext::Wake() {
  if (asleep_ > 0) changed_.notify_all();
  uint64_t one = 1;
  if (polling_) [[maybe_unused]]
    ssize_t written = write(wake_.fd(), &one, sizeof(one));  // fails if the eventfd is already set
}

void SocketContext::Post(SocketPair& pair) {
  if (std::count(posted_.begin(), posted_.end(), &pair) == 0) posted_.push_back(&pair);
}

void SocketContext::FlushPosted() {
  for (SocketPair* pair : posted_) pair->Flush();
  posted_.clear();
}

bool SocketContext::Watch(const SocketPair& watched, uint32_t events, bool is_new) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = uint64_t(watched.rank());
  return epoll_ctl(epoll_.fd(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, watched.fd(), &event) == 0;
}

void SocketContext::Sleep(std::unique_lock<std::mutex>& lock, Clock::time_point deadline) {
  asleep_++;
  changed_.wait_until(lock, deadline);
  asleep_--;
}

void SocketContext::Drive(std::unique_lock<std::mutex>& lock, Clock::time_point deadline) {
  epoll_event events[kEvents];
  auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  int ms = int(std::clamp<int64_t>(left, 0, 60'000));
  polling_ = true;
  lock.unlock();
  int n = epoll_wait(epoll_.fd(), events, kEvents, ms);
  lock.lock();
  polling_ = false;
  for (int i = 0; i < n; i++) {
    uint64_t woken = 0;
    if (events[i].data.u64 != kWakeEvent)
      pair(int(events[i].data.u64)).HandleEvents(events[i].events);
    else [[maybe_unused]]
      ssize_t drained = read(wake_.fd(), &woken, sizeof(woken));
  }
}

void SocketContext::Forget(SocketBuffer& buffer) {
  auto lock = Lock();
  std::erase_if(receives_, [&](const AnyReceive& receive) { return receive.owner == &buffer; });
  for (auto& p : pairs_) {
    auto* pair = static_cast<SocketPair*>(p.get());
    if (pair && pair->Uses(buffer)) pair->Fail("was closed: a buffer ended while it was used");
  }
}

void SocketContext::FailAll(const std::string& error) {
  for (auto& p : pairs_)
    if (p) static_cast<SocketPair&>(*p).Fail(error);
}

std::string SocketContext::Missing(const SocketBuffer& buffer) {
  std::string text;
  for (auto& p : pairs_) {
    std::string missing = p ? static_cast<SocketPair&>(*p).Missing(buffer) : "";
    if (!missing.empty()) text += (text.empty() ? "" : "; ") + missing;
  }
  return text.empty() ? "nothing was under way" : text;
}

std::shared_ptr<gloo::transport::Context> SocketDevice::createContext(int rank, int size) {
  return std::make_shared<SocketContext>(rank, size);
}

}  // namespace weft
