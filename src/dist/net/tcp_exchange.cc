#include "weft/dist/net/tcp_exchange.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "weft/core/base/error.h"
#include "weft/core/host/notice.h"
#include "weft/dist/net/descriptor_limit.h"
#include "weft/dist/net/rank_list.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kMaxMessage = 64 << 20;        // a longer message is not of this protocol
constexpr uint64_t kFailure = uint64_t(1) << 63;  // flag in a length: the text is an error of rank 0
constexpr milliseconds kAnswer{5000};             // bounds a call if packets are dropped or the listener is silent
constexpr milliseconds kBelieved{10'000};         // how long an unproven refusal is retried
constexpr milliseconds kLook{100};                // between two checks of the deadline
constexpr milliseconds kTell{200};                // to send another rank an error
constexpr milliseconds kNote{5000};               // waiting time before a note is printed

// Proves knowledge of both the environment's secret, if any, and the one that rank 0 gives to its own user.
Key WithLocal(const Key& of_environment, const Key& local) {
  return Hmac(of_environment, {"weft local secret", BytesOf(local)});
}

// Prints one line on stderr when a wait takes long.
class WaitNote {
 public:
  template <class Text>
  void Say(const Text& text) {
    if (said_ || Clock::now() < at_) return;
    said_ = true;
    PrintNote("{}", text());
  }

 private:
  Clock::time_point at_ = Clock::now() + kNote;
  bool said_ = false;
};

}  // namespace

TcpExchange::TcpExchange(int rank, int size, const std::string& host, int port, milliseconds timeout,
                         const std::string& words)
    : rank_(rank), size_(size), timeout_(timeout), words_(words) {
  Meeting at{host, port, Clock::now() + timeout};
  FindSecret(at);
  if (rank == 0)
    Listen(at);
  else
    Connect(at);
  AllGather("", at.deadline);  // either all ranks have come or all get an error
}

// Uses a LocalSecret if no other host can reach the address and the environment has no secret that others cannot read.
void TcpExchange::FindSecret(const Meeting& at) {
  std::optional<JobSecret> secret = SecretFromEnvironment();
  if (secret) key_ = secret->key;
  std::vector<Address> addresses = Resolve(at.host, at.port);
  auto outside = std::find_if(addresses.begin(), addresses.end(),
                              [](const Address& a) { return !IsLoopback(a) && !IsAnyAddress(a); });
  is_local_ = outside == addresses.end() && (!secret || secret->is_readable);
  if (is_local_) return;
  WEFT_CHECK(secret,
             fmt::format("bootstrap: MASTER_ADDR is \"{}\" ({}), which other hosts can reach, and the ranks have no "
                         "secret to know each other by; export the same WEFT_SECRET to all ranks, for example "
                         "$(openssl rand -hex 32), or WEFT_SECRET_FILE, the path of a file that holds one",
                         at.host, ToString(*outside)));
  if (rank_ == 0 && !secret->note.empty()) PrintNote("{}", secret->note);
}

// Returns nullopt if rank 0 is not there yet. Throws Error if another user's process is.
std::optional<Key> TcpExchange::FetchKey(const Meeting& at, Deadline deadline) const {
  if (!is_local_) return key_;
  std::optional<Key> local = LocalSecret::Fetch(at.port, deadline);
  return local ? std::optional(WithLocal(key_, *local)) : std::nullopt;
}

void TcpExchange::Open(const Meeting& at) {
  peers_.resize(size_t(size_));
  Socket listener = OpenListener(at.host, at.port, "rank 0");
  if (is_local_) {
    local_secret_ = std::make_unique<LocalSecret>(at.port);
    key_ = WithLocal(key_, local_secret_->key());
  }
  job_ = NameOfThisJob(key_, words_);
  int64_t own = DescriptorsToMeet(0, size_) + DescriptorsOfNetwork() + DescriptorsOfRank(size_);
  acceptor_ =
      std::make_unique<Acceptor>(std::move(listener), key_, "rank 0", size_t(GuestsToKeep(own, Acceptor::kMaxGuests)));
}

void TcpExchange::Listen(const Meeting& at) {
  Open(at);
  WaitNote note;
  for (int missing = size_ - 1; missing > 0;) {
    std::vector<pollfd> polls = acceptor_->Polls();
    if (local_secret_) polls.push_back({local_secret_->fd(), POLLIN, 0});
    for (int r = 1; r < size_; r++) polls.push_back({peers_[size_t(r)].fd(), POLLRDHUP, 0});  // poll ignores fd -1
    poll(polls.data(), polls.size(), int(kLook.count()));
    if (local_secret_) local_secret_->Serve();
    missing -= Admit();
    for (int r = 1; r < size_; r++)
      if (polls[polls.size() - size_t(size_ - r)].revents)
        FailAll(fmt::format("bootstrap: rank {} ended before all {} ranks had connected", r, size_));
    if (missing == 0) return;
    note.Say([&] {
      return fmt::format("rank 0 waits at {}:{} for these of the {} ranks: {}", at.host, at.port, size_, Absent());
    });
    if (Clock::now() >= at.deadline)
      FailAll(fmt::format("bootstrap: after {} ms these of the {} ranks have not connected to {}:{}: {}",
                          timeout_.count(), size_, at.host, at.port, Absent()));
  }
}

// Returns the number of ranks that have connected.
int TcpExchange::Admit() {
  int came = 0;
  for (Guest& guest : acceptor_->Serve()) {
    const Claim& claim = guest.claim();
    bool ours = guest.purpose() == Purpose::kRendezvous && claim.size == uint64_t(size_) && claim.from > 0 &&
                claim.from < uint64_t(size_) && claim.to == 0 && MayBeOneJob(claim.job, job_);
    if (!ours || peers_[claim.from]) {
      acceptor_->TurnAway(guest, ours ? Admission::kTaken : Admission::kOtherWorld);
      continue;
    }
    size_t rank = claim.from;
    peers_[rank] = acceptor_->Welcome(guest);
    came += bool(peers_[rank]);
  }
  return came;
}

// Sends the error that ends this rank to the connected ranks, which end with it.
void TcpExchange::FailAll(const std::string& error) {
  for (int r = 1; r < size_; r++) {
    if (!peers_[size_t(r)]) continue;
    uint64_t length = error.size() | kFailure;
    try {
      WriteAll(peers_[size_t(r)].fd(), &length, sizeof(length), Clock::now() + kTell, "");
      WriteAll(peers_[size_t(r)].fd(), error.data(), error.size(), Clock::now() + kTell, "");
    } catch (const Error&) {  // it has ended and needs no error
    }
  }
  Fail(error);
}

std::string TcpExchange::Absent() const {
  std::vector<int> absent;
  for (int r = 1; r < size_; r++)
    if (!peers_[size_t(r)]) absent.push_back(r);
  return RankList(absent);
}

// An unproven refusal may come from a stranger, so it ends this rank only after it has been repeated for a while.
void TcpExchange::Connect(const Meeting& at) {
  WaitNote note;
  std::string refusal;
  Clock::time_point since;
  const milliseconds believed = std::min(kBelieved, timeout_ / 4);
  for (milliseconds pause{10};; pause = std::min(pause * 2, milliseconds(500))) {
    Attempt attempt = Call(at);
    if (attempt.error.empty()) return;
    if (!attempt.is_refused) refusal.clear();
    if (attempt.is_refused && refusal != attempt.error) {
      refusal = attempt.error;
      since = Clock::now();
      PrintNote("rank {} tries again for {} ms, because whoever listens at {}:{} has proved nothing: {}", rank_,
                believed.count(), at.host, at.port, refusal);
    }
    bool ends = !refusal.empty() && Clock::now() - since >= believed;
    WEFT_CHECK(!ends, fmt::format("bootstrap: rank {} cannot join rank 0 at {}:{} (MASTER_ADDR, MASTER_PORT): {}",
                                  rank_, at.host, at.port, refusal));
    WEFT_CHECK(Clock::now() + pause < at.deadline,
               fmt::format("bootstrap: rank {} could not connect to rank 0 at {}:{} within {} ms: {}", rank_, at.host,
                           at.port, timeout_.count(), attempt.error));
    note.Say(
        [&] { return fmt::format("rank {} waits for rank 0 at {}:{}: {}", rank_, at.host, at.port, attempt.error); });
    std::this_thread::sleep_for(pause);
  }
}

// Tries each address once. A refusal takes precedence over other errors, because it shows that somebody listens.
TcpExchange::Attempt TcpExchange::Call(const Meeting& at) {
  Attempt attempt{"no address", false};
  for (const Address& address : Resolve(at.host, at.port)) {
    Attempt one = CallAt(address, at);
    if (one.error.empty()) return one;
    if (!attempt.is_refused) attempt = one;
  }
  return attempt;
}

// Throws Error if rank 0 has proved itself and refuses this rank.
TcpExchange::Attempt TcpExchange::CallAt(const Address& address, const Meeting& at) {
  auto deadline = std::min(at.deadline, Clock::now() + kAnswer);
  Connection rank0 = ConnectTo(address, deadline);
  if (rank0.is_local) return {fmt::format("this process cannot open a socket: {}", std::strerror(rank0.error)), false};
  if (!rank0.socket) return {std::strerror(rank0.error), false};
  std::optional<Key> key;
  try {
    key = FetchKey(at, deadline);
  } catch (const Error& e) {
    return {e.what(), true};
  }
  if (!key) return {"it listens, but is not there", false};
  Claim claim{.from = uint32_t(rank_), .to = 0, .size = uint64_t(size_), .job = NameOfThisJob(*key, words_)};
  Admission admission = Introduce(rank0.socket, *key, Purpose::kRendezvous, claim, deadline);
  std::string error = fmt::format("it {}", Explain(admission));
  if (admission == Admission::kWelcome) {
    key_ = *key;
    peers_.push_back(std::move(rank0.socket));
    return {"", false};
  }
  WEFT_CHECK(!IsProven(admission),
             fmt::format("bootstrap: rank {} cannot join rank 0 at {} (MASTER_ADDR, MASTER_PORT): {}", rank_,
                         ToString(address), error));
  return {error, admission == Admission::kOtherSecret || admission == Admission::kImpostor};
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
  bool failed = length & kFailure;
  length &= ~kFailure;
  WEFT_CHECK(length <= kMaxMessage,
             fmt::format("bootstrap: {} sends a message of {} bytes; it does not speak this protocol", who, length));
  std::string bytes(length, 0);
  ReadAll(peers_[size_t(rank)].fd(), bytes.data(), length, deadline, who);
  if (failed) Fail(bytes);
  return bytes;
}

// Reads in order of arrival, so that a rank that dies is noticed while others are awaited.
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
        p.fd = -1;  // poll ignores it
        missing--;
      } else if (p.fd >= 0) {
        late.push_back(r);
      }
    }
    WEFT_CHECK(missing == 0 || Clock::now() < deadline,
               fmt::format("bootstrap: these of the {} ranks are late: {}", size_, RankList(late)));
  }
}

// After a partial message the connection is closed, because the rank would read an error as the rest of the message.
void TcpExchange::Distribute(const std::vector<std::string>& all, Deadline deadline) {
  for (int r = 1; r < size_; r++) {
    try {
      for (const std::string& bytes : all) SendTo(r, bytes, deadline);
    } catch (const Error&) {
      peers_[size_t(r)] = Socket();
      throw;
    }
  }
}

std::vector<std::string> TcpExchange::AllGather(std::string_view mine, Deadline deadline) {
  std::vector<std::string> all(static_cast<size_t>(size_), std::string(mine));
  if (rank_ == 0) {
    std::string error;
    try {
      Collect(all, deadline);
      Distribute(all, deadline);
    } catch (const Error& e) {
      error = e.what();
    }
    if (!error.empty()) FailAll(error);
  } else {
    try {
      SendTo(0, mine, deadline);
    } catch (const Error&) {
      Receive(0, Clock::now() + kTell);  // throws the error that rank 0 sent before it ended
      throw;
    }
    for (std::string& bytes : all) bytes = Receive(0, deadline);
  }
  return all;
}

}  // namespace weft
