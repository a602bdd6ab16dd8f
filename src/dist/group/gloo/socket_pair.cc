#include "weft/dist/group/gloo/socket_pair.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "weft/core/base/error.h"
#include "weft/dist/group/gloo/socket_context.h"

namespace weft {
namespace {

constexpr size_t kListed = 32;          // per list, before it allocates
constexpr size_t kMaxListed = 1 << 16;  // per pair: messages without a receive, or unused permits

// The send buffer of a socket between ranks of one host. It is small enough to stay in a core's cache. The kernel sizes
// the buffers of other sockets by their round trips.
constexpr int kLocalBuffer = 208 << 10;

// The address of a pair's other end, only for messages. Nothing connects to it.
class SocketAddress final : public gloo::transport::Address {
 public:
  explicit SocketAddress(std::string text) : text_(std::move(text)) {}
  std::string str() const override { return text_; }
  std::vector<char> bytes() const override { return {text_.begin(), text_.end()}; }

 private:
  std::string text_;
};

Address AddressOfPeer(const Socket& socket) {
  Address address;
  address.length = sizeof(address.storage);
  getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return address;
}

// Includes the header, so that empty messages fill a window too.
uint64_t Cost(uint64_t bytes) { return bytes + sizeof(FrameHeader); }

[[noreturn]] void RefuseFormerApi(const char* what) {
  throw gloo::InvalidOperationException(
      fmt::format("gloo: {}: this transport has no such thing; use unbound buffers", what));
}

}  // namespace

SocketPair::SocketPair(SocketContext& context, int rank)
    : context_(context), rank_(rank), name_(fmt::format("rank {}", rank)), address_(new SocketAddress("")) {
  messages_.reserve(kListed);
  permits_.reserve(kListed);
  receives_.reserve(kListed);
  arrivals_.reserve(kListed);
  given_.reserve(kListed);
  written_.reserve(kListed);
}
SocketPair::~SocketPair() = default;

const gloo::transport::Address& SocketPair::address() const { return *address_; }
void SocketPair::connect(const std::vector<char>&) { RefuseFormerApi("connect to an address"); }
void SocketPair::setSync(bool, bool) { RefuseFormerApi("blocking mode"); }
std::unique_ptr<gloo::transport::Buffer> SocketPair::createSendBuffer(int, void*, size_t) {
  RefuseFormerApi("a send buffer of one pair");
}
std::unique_ptr<gloo::transport::Buffer> SocketPair::createRecvBuffer(int, void*, size_t) {
  RefuseFormerApi("a receive buffer of one pair");
}

void SocketPair::send(gloo::transport::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t bytes) {
  buffer->send(rank_, slot, offset, bytes);
}
void SocketPair::recv(gloo::transport::UnboundBuffer* buffer, uint64_t slot, size_t offset, size_t bytes) {
  buffer->recv(rank_, slot, offset, bytes);
}

// Resets the connection, so that the other side notices at once. Data that it has not read is lost.
void SocketPair::close() {
  auto lock = context_.Lock();
  linger at_once{1, 0};
  if (is_open()) setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  Fail("this rank closed it");
}

void SocketPair::Adopt(Socket socket, std::string name) {
  name_ = std::move(name);
  address_ = std::make_unique<SocketAddress>(ToString(AddressOfPeer(socket)));
  socket_ = std::move(socket);
  NoDelay(socket_);
  if (IsLoopback(AddressOfPeer(socket_))) setsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &kLocalBuffer, sizeof(kLocalBuffer));
  if (!context_.Watch(*this, EPOLLIN, true)) Fail("the system cannot wait for it");
}

template <class Fn>
void SocketPair::ForEachOwner(Fn fn) const {
  writer_.ForEachOwner(fn);
  for (const Message& message : messages_) fn(message.owner);
  for (const Receive& receive : receives_) fn(receive.owner);
  if (receiving_) fn(receiving_);
}

bool SocketPair::Uses(const SocketBuffer& buffer) const {
  bool uses = false;
  ForEachOwner([&](const SocketBuffer* owner) { uses |= owner == &buffer; });
  return uses;
}

std::string SocketPair::Missing(const SocketBuffer& buffer) const {
  auto mine = [&](const auto& item) { return item.owner == &buffer; };
  bool writes = false;
  writer_.ForEachOwner([&](const SocketBuffer* owner) { writes |= owner == &buffer; });
  bool sends = writes || std::any_of(messages_.begin(), messages_.end(), mine);
  bool receives = receiving_ == &buffer || std::any_of(receives_.begin(), receives_.end(), mine);
  if (!sends && !receives) return "";
  return fmt::format("{} has not {}{}{}", name_, receives ? "sent" : "", sends && receives ? " or " : "",
                     sends ? "taken" : "") +
         " a message";
}

void SocketPair::Fail(const std::string& error) {
  if (!is_open()) return;
  error_ = fmt::format("ended: {}", error);
  ForEachOwner([&](SocketBuffer* owner) { owner->FailWith(fmt::format("the connection to {} {}", name_, error_)); });
  socket_ = Socket();
  writer_.Clear();
  messages_.clear();
  receives_.clear();
  // Complete messages are kept, because their sender may end once it has sent them.
  std::erase_if(arrivals_, [](const Arrival& arrival) { return !arrival.complete; });
  receiving_ = nullptr;
}

void SocketPair::Send(uint64_t slot, const char* data, size_t bytes, SocketBuffer* owner) {
  if (!is_open()) throw gloo::IoException(fmt::format("the connection to {} {}", name_, error_));
  auto permit = std::find_if(permits_.begin(), permits_.end(), [&](const Permit& p) { return p.slot == slot; });
  if (bytes <= kEager && unconsumed_ + Cost(bytes) <= kWindow) {
    unconsumed_ += Cost(bytes);
    writer_.Push({slot, bytes, FrameKind::kEager}, data, owner);
  } else if (permit != permits_.end()) {
    WEFT_CHECK(bytes <= permit->room,
               fmt::format("gloo: a message of {} bytes for a receive of {} by {}", bytes, permit->room, name_));
    permits_.erase(permit);
    writer_.Push({slot, bytes, FrameKind::kDirect}, data, owner);
  } else {
    messages_.push_back({slot, data, bytes, owner});
    writer_.Push({slot, bytes, FrameKind::kOffer});
  }
  Flush();
}

bool SocketPair::HasArrival(uint64_t slot) const {
  return std::any_of(arrivals_.begin(), arrivals_.end(), [&](const Arrival& a) { return a.slot == slot; });
}

void SocketPair::Recv(uint64_t slot, char* data, size_t room, SocketBuffer* owner) {
  auto found = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& a) { return a.slot == slot; });
  if (!is_open() && found == arrivals_.end())
    throw gloo::IoException(fmt::format("the connection to {} {}", name_, error_));
  Receive receive{slot, data, room, owner};
  if (found != arrivals_.end()) return TakeArrival(size_t(found - arrivals_.begin()), receive);
  receives_.push_back(receive);
  if (room > kEager) PermitTo(receives_.back());
}

void SocketPair::PermitTo(Receive& receive) {
  receive.permitted = true;
  given_.push_back({receive.slot, receive.room});
  writer_.Push({receive.slot, receive.room, FrameKind::kPermit});
  context_.Post(*this);
}

void SocketPair::TakeArrival(size_t index, const Receive& receive) {
  Arrival arrival = std::move(arrivals_[index]);
  bool under_way = keeping_ && arrival.data && !arrival.complete;
  WEFT_CHECK(arrival.bytes <= receive.room, fmt::format("gloo: {} sent a message of {} bytes, where {} are expected",
                                                        name_, arrival.bytes, receive.room));
  arrivals_.erase(arrivals_.begin() + std::ptrdiff_t(index));
  if (!arrival.data) {
    receives_.push_back(receive);
    receives_.back().offered = true;
    return PermitTo(receives_.back());
  }
  if (arrival.eager) {
    kept_ -= Cost(arrival.bytes);
    Consume(Cost(arrival.bytes));
  }
  if (under_way) {
    reader_.Redirect(receive.data);
    receiving_ = receive.owner;
    keeping_ = false;
    return;
  }
  if (arrival.bytes) std::memcpy(receive.data, arrival.data.get(), arrival.bytes);
  receive.owner->FinishRecv(rank_);
}

// Lets the other side send as many bytes again.
void SocketPair::Consume(uint64_t bytes) {
  credit_ += bytes;
  if (credit_ < kWindow / 2) return;
  writer_.Push({0, credit_, FrameKind::kCredit});
  credit_ = 0;
  context_.Post(*this);
}

void SocketPair::Flush() {
  if (!is_open() || write_failed_) return;
  written_.clear();
  int error = writer_.Flush(fd(), written_);
  for (SocketBuffer* owner : written_) owner->FinishSend(rank_);
  // The other side may have closed the connection after it sent data that this rank has not read. Reading finds out.
  if (error == EPIPE || error == ECONNRESET)
    write_failed_ = true;
  else if (error)
    return Fail(std::strerror(error));
  SetEvents();
}

void SocketPair::SetEvents() {
  bool wants_write = !writer_.empty() && !write_failed_;
  if (wants_write == wants_write_) return;
  wants_write_ = wants_write;
  if (!context_.Watch(*this, wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN, false)) Fail("the system cannot wait for it");
}

// Handles an error event by reading, because a broken connection may still hold data that the other side sent before.
void SocketPair::HandleEvents(uint32_t events) {
  if (!is_open()) return;
  try {
    if (events & EPOLLOUT) Flush();
    if (!is_open() || !(events & ~uint32_t(EPOLLOUT))) return;
    int error = reader_.Read(fd(), *this);
    if (error == FrameReader::kClosed) return Fail("it closed the connection");
    if (error) return Fail(std::strerror(error));
    if (!writer_.empty()) Flush();
  } catch (const std::exception& e) {
    Fail(e.what());
  }
}

size_t SocketPair::FindReceive(uint64_t slot, bool offered) {
  auto find = [&] {
    return size_t(std::find_if(receives_.begin(), receives_.end(),
                               [&](const Receive& r) { return r.slot == slot && r.offered == offered; }) -
                  receives_.begin());
  };
  size_t index = find();
  if (index == receives_.size() && !offered && context_.ClaimReceive(rank_, slot)) index = find();
  return index;
}

char* SocketPair::Begin(const FrameHeader& header) {
  switch (header.kind) {
    case FrameKind::kEager:
    case FrameKind::kDirect:
      return BeginMessage(header);
    case FrameKind::kBody:
      return BeginBody(header);
    case FrameKind::kOffer:
      TakeOffer(header);
      return nullptr;
    case FrameKind::kPermit:
      TakePermit(header);
      return nullptr;
    case FrameKind::kCredit:
      WEFT_CHECK(header.bytes <= unconsumed_, "it takes more than was sent");
      unconsumed_ -= header.bytes;
      return nullptr;
  }
  weft::Fail("it does not speak this protocol");
}

char* SocketPair::BeginMessage(const FrameHeader& header) {
  bool eager = header.kind == FrameKind::kEager;
  WEFT_CHECK(!eager || header.bytes <= kEager, "it sends a large message that nobody expects");
  if (!eager) UsePermit(header);
  size_t index = FindReceive(header.slot, false);
  if (index < receives_.size()) {
    if (eager) Consume(Cost(header.bytes));
    return BeginReceive(index, header.bytes);
  }
  kept_ += eager ? Cost(header.bytes) : 0;
  WEFT_CHECK(kept_ <= kWindow, "it sends more than was agreed");
  arrivals_.push_back({.slot = header.slot, .bytes = header.bytes, .eager = eager});
  return Keep(arrivals_.back());
}

char* SocketPair::BeginBody(const FrameHeader& header) {
  UsePermit(header);
  if (size_t index = FindReceive(header.slot, true); index < receives_.size()) return BeginReceive(index, header.bytes);
  // The permit was for a receive that a small message took.
  auto found = std::find_if(arrivals_.begin(), arrivals_.end(),
                            [&](const Arrival& a) { return a.slot == header.slot && !a.data; });
  WEFT_CHECK(found != arrivals_.end() && found->bytes == header.bytes, "it sends a message that it has not offered");
  return Keep(*found);
}

// Takes memory of a size that this rank has agreed to.
char* SocketPair::Keep(Arrival& arrival) {
  arrival.data = context_.kept_messages().Take(arrival.bytes);
  keeping_ = true;
  return arrival.data.get();
}

char* SocketPair::BeginReceive(size_t index, uint64_t bytes) {
  Receive receive = receives_[index];
  receives_.erase(receives_.begin() + std::ptrdiff_t(index));
  receiving_ = receive.owner;  // before the check, so that a failure reaches the owner
  WEFT_CHECK(bytes <= receive.room,
             fmt::format("it sent a message of {} bytes, where {} are expected", bytes, receive.room));
  return receive.data;
}

void SocketPair::End() {
  if (receiving_) receiving_->FinishRecv(rank_);
  receiving_ = nullptr;
  if (!keeping_) return;
  for (Arrival& arrival : arrivals_)
    if (arrival.data) arrival.complete = true;  // only one is being read at a time
  keeping_ = false;
}

void SocketPair::TakeOffer(const FrameHeader& header) {
  size_t index = FindReceive(header.slot, false);
  if (index == receives_.size()) {
    WEFT_CHECK(arrivals_.size() < kMaxListed, "it offers too many messages that nobody asks for");
    arrivals_.push_back({.slot = header.slot, .bytes = header.bytes});
    return;
  }
  receives_[index].offered = true;
  if (!receives_[index].permitted) PermitTo(receives_[index]);
}

void SocketPair::TakePermit(const FrameHeader& header) {
  auto found =
      std::find_if(messages_.begin(), messages_.end(), [&](const Message& m) { return m.slot == header.slot; });
  if (found == messages_.end()) {
    WEFT_CHECK(permits_.size() < kMaxListed, "it expects too many messages that nobody sends");
    permits_.push_back({header.slot, header.bytes});
    return;
  }
  WEFT_CHECK(found->bytes <= header.bytes,
             fmt::format("it expects {} bytes, where {} are sent", header.bytes, found->bytes));
  writer_.Push({header.slot, found->bytes, FrameKind::kBody}, found->data, found->owner);
  messages_.erase(found);
}

void SocketPair::UsePermit(const FrameHeader& header) {
  auto found = std::find_if(given_.begin(), given_.end(), [&](const Permit& p) { return p.slot == header.slot; });
  WEFT_CHECK(found != given_.end() && header.bytes <= found->room, "it sends a message that was not permitted");
  given_.erase(found);
}

}  // namespace weft
