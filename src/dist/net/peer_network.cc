#include "weft/dist/net/peer_network.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "weft/core/base/error.h"
#include "weft/dist/net/descriptor_limit.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLook{500};  // between two probes of an awaited rank
constexpr milliseconds kPause{50};  // before calling again a rank that closed a connection

}  // namespace

PeerNetwork::PeerNetwork(int rank, int size, const Key& key, const std::string& address)
    : rank_(rank), size_(size), key_(key), quit_(eventfd(0, EFD_CLOEXEC)) {
  WEFT_CHECK(quit_, "network: no event to end a thread by");
  if (size == 1) return;
  Socket listener = OpenListener(address, 0, fmt::format("rank {}", rank));
  port_ = PortOf(listener);
  auto guests = size_t(GuestsToKeep(DescriptorsOfNetwork() + DescriptorsOfRank(size), Acceptor::kMaxGuests));
  acceptor_ = std::make_unique<Acceptor>(std::move(listener), key_, fmt::format("rank {}", rank), guests);
}

PeerNetwork::~PeerNetwork() {
  uint64_t one = 1;
  if (thread_.joinable() && write(quit_.fd(), &one, sizeof(one)) == ssize_t(sizeof(one))) thread_.join();
}

void PeerNetwork::Adopt(std::unique_ptr<Acceptor> rendezvous, std::unique_ptr<LocalSecret> secret) {
  acceptor_->Adopt(std::move(*rendezvous));
  secret_ = std::move(secret);
}

void PeerNetwork::Start(std::vector<Peer> peers, Deadline deadline) {
  peers_ = std::move(peers);
  if (size_ == 1) return;
  thread_ = std::thread([this] { Serve(); });
  next_ = CallSurely((rank_ + 1) % size_, Purpose::kNotices, {}, deadline);
}

std::string PeerNetwork::Who(int rank) const {
  return fmt::format("rank {} (host {}, pid {})", rank, peer(rank).host, peer(rank).pid);
}

void PeerNetwork::OnQuestion(Handler handler) {
  std::lock_guard lock(handler_mutex_);
  question_ = std::move(handler);
}

void PeerNetwork::OnNotice(std::function<void(char)> handler) {
  std::lock_guard lock(handler_mutex_);
  notice_ = std::move(handler);
}

void PeerNetwork::LeaveNotice(char kind) {
  if (next_) send(next_.fd(), &kind, 1, MSG_NOSIGNAL | MSG_DONTWAIT);  // a rank that has ended needs no notice
}

void PeerNetwork::TakeNotices() {
  char kinds[64];
  ssize_t n = recv(previous_.fd(), kinds, sizeof(kinds), MSG_DONTWAIT);
  std::lock_guard lock(handler_mutex_);
  for (ssize_t i = 0; i < n && notice_; i++) notice_(kinds[i]);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) previous_ = Socket();
}

void PeerNetwork::Serve() {
  for (;;) {
    std::vector<pollfd> polls{{quit_.fd(), POLLIN, 0}, {previous_.fd(), POLLIN, 0}};  // poll ignores fd -1
    if (secret_) polls.push_back({secret_->fd(), POLLIN, 0});
    std::vector<pollfd> guests = acceptor_->Polls();
    polls.insert(polls.end(), guests.begin(), guests.end());
    poll(polls.data(), polls.size(), acceptor_->PollMs());
    if (polls[0].revents) return;
    if (polls[1].revents) TakeNotices();
    if (secret_) secret_->Serve();
    ServeGuests();
  }
}

// Ranks of other jobs with the same secret may come to the rendezvous. They get no connection to this job.
void PeerNetwork::ServeGuests() {
  for (Guest& guest : acceptor_->Serve()) {
    const Claim& claim = guest.claim();
    bool ours = claim.size == uint64_t(size_) && claim.from < uint64_t(size_) && claim.to == uint32_t(rank_);
    bool meets = guest.purpose() == Purpose::kRendezvous;
    if (!ours || meets != (guest.door() > 0))
      acceptor_->TurnAway(guest, Admission::kOtherWorld);
    else if (meets)
      acceptor_->TurnAway(guest, Admission::kTaken);
    else
      Take(guest);
  }
}

void PeerNetwork::Take(Guest& guest) {
  Claim claim = guest.claim();
  if (guest.purpose() == Purpose::kProbe) {
    acceptor_->Welcome(guest);
  } else if (guest.purpose() == Purpose::kNotices) {
    previous_ = acceptor_->Welcome(guest);
  } else if (guest.purpose() == Purpose::kQuestion) {
    std::lock_guard lock(handler_mutex_);
    // This happens on every rank at the end of a job.
    if (!question_) return static_cast<void>(guest.Answer(key_, Admission::kLeft));
    if (Socket socket = acceptor_->Welcome(guest)) question_(std::move(socket), claim);
  } else if (Socket socket = acceptor_->Welcome(guest)) {
    std::lock_guard lock(pairs_mutex_);
    pairs_[{claim.detail, int(claim.from)}] = std::move(socket);  // if a caller called twice, the newer connection
    pair_came_.notify_all();
  }
}

PeerNetwork::Call PeerNetwork::CallOnce(int rank, Purpose purpose, const Claim& claim, Deadline deadline) const {
  Connection connection = ConnectTo(Resolve(peer(rank).address, peer(rank).port).at(0), deadline);
  if (connection.is_local) return {Socket(), Admission::kNoSocket, connection.error};
  if (connection.error == ECONNREFUSED) return {Socket(), Admission::kAbsent};
  if (connection.error == ECONNRESET) return {Socket(), Admission::kGone};
  if (connection.error) return {Socket(), Admission::kSilent};  // its host or the network on the way is at fault
  Admission admission = Introduce(connection.socket, key_, purpose, claim, deadline);
  if (admission != Admission::kWelcome) return {Socket(), admission};
  return {std::move(connection.socket), admission};
}

// A rank closes connections unanswered when too many strangers call at once. A rank that has ended refuses the next
// call.
PeerNetwork::Call PeerNetwork::Connect(int rank, Purpose purpose, Claim claim, Deadline deadline) const {
  claim.from = uint32_t(rank_);
  claim.to = uint32_t(rank);
  claim.size = uint64_t(size_);
  for (;;) {
    Call call = CallOnce(rank, purpose, claim, deadline);
    bool again = call.admission == Admission::kGone || call.admission == Admission::kNoSocket;
    if (!again || Clock::now() + kPause >= deadline) return call;
    std::this_thread::sleep_for(kPause);
  }
}

// The higher rank connects to the lower one, as at the rendezvous.
std::vector<Socket> PeerNetwork::ConnectGroup(const std::vector<int>& ranks, uint64_t group, Deadline deadline) {
  std::vector<Socket> sockets(ranks.size());
  for (size_t i = 0; i < ranks.size(); i++) {
    if (ranks[i] < rank_) sockets[i] = CallSurely(ranks[i], Purpose::kPair, {.detail = group}, deadline);
    if (ranks[i] > rank_) sockets[i] = AwaitPair(ranks[i], group, deadline);
  }
  return sockets;
}

Socket PeerNetwork::CallSurely(int rank, Purpose purpose, const Claim& claim, Deadline deadline) const {
  Call call = Connect(rank, purpose, claim, deadline);
  WEFT_CHECK(call.socket, fmt::format("{} {}{}{}", Who(rank), Explain(call.admission), call.error ? ": " : "",
                                      call.error ? std::strerror(call.error) : ""));
  return std::move(call.socket);
}

Socket PeerNetwork::AwaitPair(int rank, uint64_t group, Deadline deadline) {
  for (;;) {
    auto until = std::min(deadline, Clock::now() + kLook);
    {
      std::unique_lock lock(pairs_mutex_);
      auto came = [&] { return pairs_.contains({group, rank}); };
      if (pair_came_.wait_until(lock, until, came)) return std::move(pairs_.extract({group, rank}).mapped());
    }
    WEFT_CHECK(Clock::now() < deadline, fmt::format("{} has not connected to rank {} in time", Who(rank), rank_));
    Call look = Connect(rank, Purpose::kProbe, {}, std::min(deadline, Clock::now() + kLook));
    // A silent or crowded rank may still connect.
    bool there = look.socket || look.admission == Admission::kSilent || look.admission == Admission::kGone ||
                 look.admission == Admission::kNoSocket;
    WEFT_CHECK(there, fmt::format("{} {}", Who(rank), Explain(look.admission)));
  }
}

}  // namespace weft
