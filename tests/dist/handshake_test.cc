// Tests of what a connection between ranks must prove, and of what strangers can cost: handshakes, listeners, secrets,
// and the network of the ranks. Ranks are threads.
#include "weft/dist/net/handshake.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <latch>
#include <thread>

#include "error_of.h"
#include "share.h"
#include "weft/core/base/error.h"
#include "weft/dist/failure/side_channel.h"
#include "weft/dist/net/acceptor.h"
#include "weft/dist/net/job_secret.h"
#include "weft/dist/net/peer_network.h"

namespace weft {
namespace {

using test::ErrorOf;

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const Key kOurs = Hmac(Key{}, {"the job of this test"}), kTheirs = Hmac(Key{}, {"another job"});
const Claim kClaim{.from = 1, .to = 0, .size = 2, .detail = 7, .bytes = 9};

constexpr int kReply = 36;  // bytes of a listener's reply

struct Link {
  Socket caller, listener;
};
Link Connected(const Socket& listener = OpenListener("127.0.0.1", 0)) {
  Connection there = ConnectTo(Resolve("127.0.0.1", PortOf(listener)).at(0), Clock::now() + 5s);
  EXPECT_TRUE(WaitReady(listener.fd(), POLLIN, Clock::now() + 5s));
  return {std::move(there.socket), Socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC))};
}

// The result of a handshake at both ends.
struct Outcome {
  Admission caller = Admission::kSilent;
  Guest::Step listener = Guest::Step::kWaiting;
  Claim claim;
  std::string reason;
  bool is_good() const { return caller == Admission::kWelcome && listener == Guest::Step::kProven; }
};

// Runs the listener's end until the handshake succeeds or fails.
void Listen(Socket socket, const Key& key, Outcome* outcome) {
  Guest guest(std::move(socket), "a caller", Clock::now() + 5s);
  while (outcome->listener == Guest::Step::kWaiting && WaitReady(guest.socket().fd(), POLLIN, guest.until()))
    outcome->listener = guest.Advance(key);
  if (outcome->listener == Guest::Step::kProven) guest.Answer(key, Admission::kWelcome);
  outcome->claim = guest.claim();
  outcome->reason = guest.reason();
}

TEST(Handshake, BothEndsOfOneJobAreProven) {
  for (Purpose purpose : {Purpose::kRendezvous, Purpose::kQuestion, Purpose::kPair, Purpose::kProbe}) {
    Link link = Connected();
    Outcome outcome;
    std::thread listener([&] { Listen(std::move(link.listener), kOurs, &outcome); });
    outcome.caller = Introduce(link.caller, kOurs, purpose, kClaim, Clock::now() + 5s);
    listener.join();
    EXPECT_TRUE(outcome.is_good()) << outcome.reason;
    EXPECT_EQ(BytesOf(outcome.claim), BytesOf(kClaim));
  }
}

TEST(Handshake, AnotherSecretIsRefusedAndTold) {
  Link link = Connected();
  Outcome outcome;
  std::thread listener([&] { Listen(std::move(link.listener), kOurs, &outcome); });
  outcome.caller = Introduce(link.caller, kTheirs, Purpose::kPair, kClaim, Clock::now() + 5s);
  listener.join();
  EXPECT_EQ(outcome.caller, Admission::kOtherSecret);
  EXPECT_EQ(outcome.listener, Guest::Step::kRefused);
}

// Passes bytes between two sockets and changes one of them: byte `at` of one direction.
void Relay(const Socket& caller, const Socket& listener, bool to_listener, int at) {
  int passed = 0;
  for (;;) {
    pollfd polls[] = {{caller.fd(), POLLIN, 0}, {listener.fd(), POLLIN, 0}};
    if (poll(polls, 2, 5000) <= 0) return;
    for (int i = 0; i < 2; i++) {
      char bytes[256];
      if (!polls[i].revents) continue;
      ssize_t n = recv(polls[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (n <= 0) return;
      bool counted = to_listener == (i == 0);
      if (counted && at >= passed && at < passed + n) bytes[at - passed] ^= 0x10;
      if (counted) passed += int(n);
      send(polls[1 - i].fd, bytes, size_t(n), MSG_NOSIGNAL);
    }
  }
}

// A program with its own address forwards all bytes, which needs no secret. The handshake must detect it.
TEST(Handshake, ARelayAtAnotherAddressIsRefused) {
  for (bool same : {true, false}) {
    Socket listener = OpenListener("127.0.0.1", 0), another = OpenListener("127.0.0.1", 0);
    Link near = Connected(same ? listener : another), far = Connected(listener);
    Outcome outcome;
    std::thread listens([&] { Listen(std::move(far.listener), kOurs, &outcome); });
    std::thread relay([&] {
      Relay(near.listener, far.caller, true, -1);
      near.listener = Socket();
      far.caller = Socket();
    });
    outcome.caller = Introduce(near.caller, kOurs, Purpose::kRendezvous, kClaim, Clock::now() + 5s);
    near.caller = Socket();
    relay.join();
    listens.join();
    EXPECT_EQ(outcome.is_good(), same);  // the same address is fine, as for a router
    EXPECT_EQ(outcome.listener, same ? Guest::Step::kProven : Guest::Step::kRefused);
  }
}

TEST(Handshake, BothEndsNameOneListener) {
  for (const char* host : {"127.0.0.1", "127.0.0.7", "::1"}) {
    Address address = Resolve(host, 0).at(0);
    Socket listener(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(listener.fd(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) continue;
    ASSERT_EQ(listen(listener.fd(), 8), 0);
    Connection there = ConnectTo(Resolve(host, PortOf(listener)).at(0), Clock::now() + 5s);
    Socket here(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_EQ(ListeningEnd(here, true), ListeningEnd(there.socket, false)) << host;
    EXPECT_NE(ListeningEnd(here, true), ListeningEnd(there.socket, true)) << host;
  }
  // For a listener on all interfaces of both families, the address that was called counts.
  Socket listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Address any = Resolve("::", 0).at(0);
  if (!listener || bind(listener.fd(), reinterpret_cast<const sockaddr*>(&any.storage), any.length) != 0) return;
  ASSERT_EQ(listen(listener.fd(), 8), 0);
  Connection there = ConnectTo(Resolve("127.0.0.1", PortOf(listener)).at(0), Clock::now() + 5s);
  Socket here(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(ListeningEnd(here, true), ListeningEnd(there.socket, false));
}

// Listening at the second address would be wrong, because callers would reach the other program at the first one.
TEST(OpenListener, DoesNotGoOnFromAnAddressThatIsHeld) {
  Socket held = OpenListener("127.0.0.1", 0);
  int port = PortOf(held);
  auto at = [&](const char* host) { return Resolve(host, port).at(0); };
  std::string error = ErrorOf([&] { OpenListener({at("127.0.0.1"), at("127.0.0.2")}, "rank 0"); });
  EXPECT_NE(error.find("rank 0 cannot listen at 127.0.0.1:" + std::to_string(port) + ": Address already in use"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("choose another MASTER_PORT"), std::string::npos) << error;
  // An address that this host does not have cannot be held by another program, so it is skipped.
  EXPECT_EQ(PortOf(OpenListener({at("203.0.113.7"), at("127.0.0.2")}, "rank 0")), port);
}

// A program between two ranks can only make their handshake fail.
TEST(Handshake, NoChangedByteIsLetThrough) {
  constexpr int kToListener = sizeof(Guest::Hello) + sizeof(Guest::Proof), kToCaller = sizeof(Key) + kReply;
  int changed = 0;
  for (bool to_listener : {true, false})
    for (int at = 0; at<(to_listener ? kToListener : kToCaller); at += test::Share()> 1 ? 7 : 1, changed++) {
      Socket door = OpenListener("127.0.0.1", 0);
      Link near = Connected(door), far = Connected(door);
      Outcome outcome;
      std::thread listener([&] { Listen(std::move(far.listener), kOurs, &outcome); });
      std::thread relay([&] {
        Relay(near.listener, far.caller, to_listener, at);
        near.listener = Socket();
        far.caller = Socket();
      });
      outcome.caller = Introduce(near.caller, kOurs, Purpose::kPair, kClaim, Clock::now() + 5s);
      near.caller = Socket();
      relay.join();
      listener.join();
      EXPECT_FALSE(outcome.is_good()) << "byte " << at << (to_listener ? " to the listener" : " to the caller");
    }
  std::printf("shown: handshakes with one of %d bytes changed: none was good\n", changed);
}

// Returns all bytes that a caller sends in a good handshake.
std::string Recorded(Purpose purpose) {
  Socket door = OpenListener("127.0.0.1", 0);
  Link near = Connected(door), far = Connected(door);
  Outcome outcome;
  std::string sent;
  std::thread listener([&] { Listen(std::move(far.listener), kOurs, &outcome); });
  std::thread caller([&] { outcome.caller = Introduce(near.caller, kOurs, purpose, kClaim, Clock::now() + 5s); });
  for (size_t left = sizeof(Guest::Hello) + sizeof(Guest::Proof); left > 0;) {
    pollfd polls[] = {{near.listener.fd(), POLLIN, 0}, {far.caller.fd(), POLLIN, 0}};
    if (poll(polls, 2, 5000) <= 0) break;
    char bytes[256];
    for (int i = 0; i < 2; i++) {
      ssize_t n = polls[i].revents ? recv(polls[i].fd, bytes, sizeof(bytes), MSG_DONTWAIT) : 0;
      if (n <= 0) continue;
      send(i == 0 ? far.caller.fd() : near.listener.fd(), bytes, size_t(n), MSG_NOSIGNAL);
      if (i == 0) sent.append(bytes, size_t(n)), left -= size_t(n);
    }
  }
  char reply[kReply];
  ReadAll(far.caller.fd(), reply, sizeof(reply), Clock::now() + 5s, "the listener");
  WriteAll(near.listener.fd(), reply, sizeof(reply), Clock::now() + 5s, "the caller");
  listener.join();
  caller.join();
  EXPECT_TRUE(outcome.is_good());
  return sent;
}

TEST(Handshake, ARecordedOneDoesNotFitAgain) {
  std::string recorded = Recorded(Purpose::kPair);
  for (bool other_purpose : {false, true}) {
    Link link = Connected();
    Outcome outcome;
    std::thread listener([&] { Listen(std::move(link.listener), kOurs, &outcome); });
    if (other_purpose) recorded[offsetof(Guest::Hello, purpose)] = char(Purpose::kQuestion);
    WriteAll(link.caller.fd(), recorded.data(), recorded.size(), Clock::now() + 5s, "the listener");
    listener.join();
    EXPECT_EQ(outcome.listener, Guest::Step::kRefused) << outcome.reason;
  }
}

// A listener without the secret reflects the caller's nonce, or returns the caller's own code as its own.
TEST(Handshake, AListenerThatReflectsIsAnImpostor) {
  Link link = Connected();
  std::thread listener([&] {
    Guest::Hello hello;
    Guest::Proof proof;
    auto deadline = Clock::now() + 5s;
    ReadAll(link.listener.fd(), &hello, sizeof(hello), deadline, "the caller");
    WriteAll(link.listener.fd(), &hello.nonce, sizeof(Key), deadline, "the caller");
    ReadAll(link.listener.fd(), &proof, sizeof(proof), deadline, "the caller");
    struct {
      Admission admission = Admission::kWelcome;
      Key code;
    } reply;
    reply.code = proof.code;
    WriteAll(link.listener.fd(), &reply, sizeof(reply), deadline, "the caller");
  });
  EXPECT_EQ(Introduce(link.caller, kOurs, Purpose::kPair, kClaim, Clock::now() + 5s), Admission::kImpostor);
  listener.join();
}

// Runs an acceptor in a thread that welcomes every proven caller.
class Door {
 public:
  Door() : acceptor_(Listener(), kOurs, "rank 0"), thread_([this] { Serve(); }) {}
  ~Door() {
    quit_ = true;
    thread_.join();
  }
  Connection Knock() const { return ConnectTo(Resolve("127.0.0.1", port_).at(0), Clock::now() + 5s); }

 private:
  Socket Listener() {
    Socket listener = OpenListener("127.0.0.1", 0);
    port_ = PortOf(listener);
    return listener;
  }
  void Serve() {
    std::vector<Socket> welcome;
    while (!quit_) {
      std::vector<pollfd> polls = acceptor_.Polls();
      poll(polls.data(), polls.size(), 10);
      for (Guest& guest : acceptor_.Serve()) welcome.push_back(acceptor_.Welcome(guest));
    }
  }
  int port_ = 0;
  Acceptor acceptor_;
  std::atomic<bool> quit_{false};
  std::thread thread_;
};

TEST(Acceptor, ACrowdOfStrangersHoldsUpNobodyAndCostsFewLines) {
  constexpr int kStrangers = 700;  // more than the acceptor keeps
  testing::internal::CaptureStderr();
  {
    Door door;
    std::vector<Connection> strangers;
    for (int i = 0; i < kStrangers; i++) {
      strangers.push_back(door.Knock());
      const char huge[] = "\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0";
      if (i % 3 == 1) send(strangers.back().socket.fd(), huge, sizeof(huge) - 1, MSG_NOSIGNAL);
      if (i % 3 == 2) strangers.back().socket = Socket();
    }
    auto begin = Clock::now();
    EXPECT_EQ(Introduce(door.Knock().socket, kOurs, Purpose::kPair, kClaim, Clock::now() + 5s), Admission::kWelcome);
    EXPECT_LT(Clock::now() - begin, 3s);
  }
  std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 11) << lines;
  EXPECT_NE(lines.find("note: rank 0 turned away 127.0.0.1:"), std::string::npos) << lines;
  EXPECT_NE(lines.find(" more\n"), std::string::npos) << lines;
}

// A rank sends its first message, and then many strangers connect and send nothing. The acceptor must end strangers
// first.
TEST(Acceptor, EndsThoseThatHaveNotBegunFirst) {
  testing::internal::CaptureStderr();
  {
    Door door;
    Connection rank = door.Knock();
    Guest::Hello hello{Guest::kProtocol, Purpose::kPair, 0, Key{}};
    WriteAll(rank.socket.fd(), &hello, sizeof(hello), Clock::now() + 5s, "the listener");
    Key nonce;
    ReadAll(rank.socket.fd(), &nonce, sizeof(nonce), Clock::now() + 5s, "the listener");
    std::vector<Connection> strangers;
    for (int i = 0; i < 2 * int(Acceptor::kMaxGuests); i++) strangers.push_back(door.Knock());
    EXPECT_TRUE(WaitReady(strangers[0].socket.fd(), POLLIN, Clock::now() + 2s));  // the acceptor closed it
    EXPECT_FALSE(WaitReady(rank.socket.fd(), POLLIN, Clock::now() + 200ms));
  }
  testing::internal::GetCapturedStderr();
}

// A guest that leaves after the challenge is reported too.
TEST(Acceptor, AGuestThatLeavesIsNamed) {
  testing::internal::CaptureStderr();
  {
    Door door;
    Connection guest = door.Knock();
    Guest::Hello hello{Guest::kProtocol, Purpose::kPair, 0, Key{}};
    WriteAll(guest.socket.fd(), &hello, sizeof(hello), Clock::now() + 5s, "the listener");
    Key nonce;
    ReadAll(guest.socket.fd(), &nonce, sizeof(nonce), Clock::now() + 5s, "the listener");
    guest.socket = Socket();
    std::this_thread::sleep_for(200ms);
  }
  std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find(": it left before it had proved itself\n"), std::string::npos) << lines;
}

// A listener that was suspended during a handshake finds proofs of callers that have given up and will retry. It must
// not welcome them.
TEST(Acceptor, WelcomesNoCallerThatHasGivenUp) {
  for (bool late : {false, true}) {
    Socket listener = OpenListener("127.0.0.1", 0);
    Connection there = ConnectTo(Resolve("127.0.0.1", PortOf(listener)).at(0), Clock::now() + 5s);
    Acceptor acceptor(std::move(listener), kOurs, "rank 0");
    std::thread caller([&] {
      Introduce(there.socket, kOurs, Purpose::kPair, kClaim, Clock::now() + (late ? 1s : 30s));
      if (late) there.socket = Socket();
    });
    std::vector<Guest> proven;  // a busy machine may send the challenge and check the proof in one call
    for (auto end = Clock::now() + 5s; proven.empty() && Clock::now() < end; std::this_thread::sleep_for(2ms))
      proven = acceptor.Serve();
    if (late) caller.join();
    EXPECT_EQ(proven.size(), 1u);
    EXPECT_EQ(!proven.empty() && acceptor.Welcome(proven[0]), !late);
    if (!late) caller.join();
  }
}

TEST(Acceptor, ASilentGuestIsTurnedAwayWithTheReason) {
  testing::internal::CaptureStderr();
  {
    Door door;
    Connection silent = door.Knock(), half = door.Knock();
    send(half.socket.fd(), "\x21\x77\x65\x66", 4, MSG_NOSIGNAL);
    char byte;
    auto begin = Clock::now();
    for (const Connection* guest : {&silent, &half}) {
      EXPECT_TRUE(WaitReady(guest->socket.fd(), POLLIN, Clock::now() + 2 * Acceptor::kPatience));
      EXPECT_EQ(recv(guest->socket.fd(), &byte, 1, 0), 0);
    }
    EXPECT_GE(Clock::now() - begin, Acceptor::kPatience - 100ms);
  }
  std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find(": it sent nothing for 5000 ms\n"), std::string::npos) << lines;
  EXPECT_NE(lines.find(": it had not proved itself within 5000 ms\n"), std::string::npos) << lines;
}

// Runs fn(network) on all ranks of a world once they are connected to each other.
void RunNetwork(int ranks, const std::function<void(PeerNetwork&, int rank)>& fn) {
  std::vector<std::unique_ptr<PeerNetwork>> networks;
  std::vector<PeerNetwork::Peer> peers;
  for (int r = 0; r < ranks; r++) {
    networks.push_back(std::make_unique<PeerNetwork>(r, ranks, kOurs, "127.0.0.1"));
    peers.push_back({"here", int(getpid()), "127.0.0.1", networks.back()->port()});
  }
  ForAllRanks(ranks, [&](int r) {
    networks[size_t(r)]->Start(peers, Clock::now() + 10s);
    fn(*networks[size_t(r)], r);
    networks[size_t(r)].reset();
  });
}

TEST(PeerNetwork, ConnectsTheRanksOfGroups) {
  RunNetwork(4, [](PeerNetwork& network, int rank) {
    // Each rank makes two groups. Ranks 0 and 1 make them in the opposite order.
    std::vector<std::vector<int>> groups{{0, 1, 2, 3}, {rank % 2, rank % 2 + 2}};
    if (rank < 2) std::swap(groups[0], groups[1]);
    std::vector<std::vector<Socket>> sockets;
    for (const std::vector<int>& ranks : groups)
      sockets.push_back(network.ConnectGroup(ranks, ranks.size(), Clock::now() + 10s));
    auto deadline = Clock::now() + 10s;
    for (size_t g = 0; g < 2; g++)
      for (size_t i = 0; i < groups[g].size(); i++)
        if (groups[g][i] != rank) WriteAll(sockets[g][i].fd(), &rank, sizeof(rank), deadline, "a rank");
    for (size_t g = 0; g < 2; g++)
      for (size_t i = 0; i < groups[g].size(); i++) {
        if (groups[g][i] == rank) continue;
        int other = -1;
        ReadAll(sockets[g][i].fd(), &other, sizeof(other), deadline, "a rank");
        EXPECT_EQ(other, groups[g][i]);
      }
  });
}

// The ranks would wait up to a minute for the others. They must notice at once that one of them is gone.
TEST(PeerNetwork, NoticesARankThatIsGoneWhileGroupsConnect) {
  for (int gone : {0, 2})
    RunNetwork(3, [&](PeerNetwork& network, int rank) {
      if (rank == gone) {
        std::this_thread::sleep_for(300ms);  // all ranks have run Start by then
        return;
      }
      auto begin = Clock::now();
      std::string error = ErrorOf([&] {
        std::this_thread::sleep_for(gone == 0 ? 600ms : 100ms);
        network.ConnectGroup({0, 1, 2}, 1, Clock::now() + 60s);
      });
      EXPECT_NE(error.find("rank " + std::to_string(gone) + " (host here, pid "), std::string::npos) << error;
      EXPECT_LT(Clock::now() - begin, 10s);
      std::this_thread::sleep_for(1s);  // a rank that ends looks gone to the others too
    });
}

bool IsClosed(const Socket& socket) {
  char byte;
  ssize_t got = recv(socket.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

// Connects to a port until its rank closes one connection in favour of another. Then it keeps connecting and holds the
// latest connections. Every second one starts a handshake.
void Crowd(int port, std::latch& full, const std::atomic<bool>& quit) {
  const Address address = Resolve("127.0.0.1", port).at(0);
  const Guest::Hello hello{Guest::kProtocol, Purpose::kPair, 0, Key{}};
  std::deque<Socket> held;
  bool is_full = false;
  for (size_t i = 0; !quit; i++) {
    Connection stranger = ConnectTo(address, Clock::now() + 100ms);
    if (!stranger.socket) continue;
    if (i % 2) send(stranger.socket.fd(), &hello, sizeof(hello), MSG_NOSIGNAL | MSG_DONTWAIT);
    held.push_back(std::move(stranger.socket));
    if (is_full) {
      held.pop_front();
    } else if (std::any_of(held.begin(), held.end(), IsClosed)) {
      is_full = true;
      full.count_down();
    }
  }
}

// Three ranks and both ends of every connection share this process, so it may need more descriptors than one rank.
bool MayOpen(rlim_t descriptors) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  if (limit.rlim_cur >= descriptors) return true;
  limit.rlim_cur = descriptors;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

TEST(PeerNetwork, ConnectsGroupsWhileStrangersKeepCalling) {
  if (!MayOpen(4096)) GTEST_SKIP() << "this process may not open 4096 files";
  testing::internal::CaptureStderr();
  std::atomic<int> connected{0};
  std::latch full(4), met(3);
  RunNetwork(3, [&](PeerNetwork& network, int rank) {
    std::atomic<bool> quit{false};
    std::vector<std::thread> strangers;
    if (rank < 2)
      for (int i = 0; i < 2; i++) strangers.emplace_back([&, port = network.port()] { Crowd(port, full, quit); });
    full.wait();
    for (uint64_t group = 1; group <= 8; group++) {
      std::string error = ErrorOf([&] { network.ConnectGroup({0, 1, 2}, group, Clock::now() + 30s); });
      EXPECT_EQ(error, "");
      if (!error.empty()) break;
      connected++;
    }
    quit = true;
    for (std::thread& stranger : strangers) stranger.join();
    met.arrive_and_wait();
  });
  std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find(" others had not proved themselves either"), std::string::npos) << lines;
  EXPECT_EQ(connected, 24);
}

// A rank that strangers crowd may close a connection unanswered, although it is alive. So callers try again. They stop
// if nothing listens at the port.
TEST(PeerNetwork, CallsAgainWhenAConnectionIsClosedUnanswered) {
  Socket listener = OpenListener("127.0.0.1", 0);
  PeerNetwork network(0, 2, kOurs, "127.0.0.1");
  std::atomic<bool> quit{false};
  std::atomic<int> calls{0};
  std::thread closes([&] {
    while (!quit) {
      if (!WaitReady(listener.fd(), POLLIN, Clock::now() + 10ms)) continue;
      Socket guest(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      calls++;
    }
  });
  std::vector<PeerNetwork::Peer> peers(2, {"here", int(getpid()), "127.0.0.1", PortOf(listener)});
  std::string error = ErrorOf([&] { network.Start(peers, Clock::now() + 500ms); });
  EXPECT_NE(error.find("closed the connection before it answered"), std::string::npos) << error;
  EXPECT_GE(calls, 4);
  quit = true;
  closes.join();
  listener = Socket();
  auto begin = Clock::now();
  EXPECT_EQ(network.Connect(1, Purpose::kProbe, {}, Clock::now() + 10s).admission, Admission::kAbsent);
  EXPECT_LT(Clock::now() - begin, 2s);
}

TEST(PeerNetwork, SaysWhoDoesNotCome) {
  RunNetwork(2, [&](PeerNetwork& network, int rank) {
    if (rank == 0) {
      EXPECT_NE(ErrorOf([&] {
                  network.ConnectGroup({0, 1}, 1, Clock::now() + 300ms);
                }).find("has not connected to rank 0 in time"),
                std::string::npos);
    } else {
      std::this_thread::sleep_for(1s);
    }
  });
}

// All ranks stay until the calls are made. A rank that has connected to its groups could otherwise end while others
// still call it.
TEST(PeerNetwork, ACallForAnotherRankOrWorldIsTurnedAway) {
  testing::internal::CaptureStderr();
  std::latch called(3);
  RunNetwork(3, [&](PeerNetwork& network, int rank) {
    const PeerNetwork::Peer& one = network.peer(1);
    for (const Claim& claim : {Claim{.from = 0, .to = 2, .size = 3}, Claim{.from = 0, .to = 1, .size = 4},
                               Claim{.from = 3, .to = 1, .size = 3}}) {
      if (rank != 0) break;
      Connection there = ConnectTo(Resolve(one.address, one.port).at(0), Clock::now() + 5s);
      EXPECT_EQ(there.error, 0) << std::strerror(there.error);
      EXPECT_EQ(Introduce(there.socket, kOurs, Purpose::kProbe, claim, Clock::now() + 5s), Admission::kOtherWorld);
    }
    called.arrive_and_wait();
  });
  std::string lines = testing::internal::GetCapturedStderr();
  for (const char* who : {"rank 0 of 3", "rank 0 of 4", "rank 3 of 3"})
    EXPECT_NE(lines.find(std::string(who) + " is of another job than this rank"), std::string::npos) << lines;
}

// Ranks of one job always match. Ranks of two jobs mostly differ.
TEST(JobName, TellsJobsApart) {
  const std::filesystem::path here = std::filesystem::current_path();
  auto name = [](const char* words, const char* variable = "PATH_OF_NOBODY", const char* value = "") {
    setenv(variable, value, 1);
    JobName mine = NameOfThisJob(kOurs, words);
    unsetenv(variable);
    return mine;
  };
  JobName plain = name("train a.yaml"), slurm = name("train a.yaml", "SLURM_JOB_ID", "7");
  EXPECT_TRUE(MayBeOneJob(plain, name("train a.yaml")));
  EXPECT_FALSE(MayBeOneJob(plain, name("train b.yaml")));
  EXPECT_TRUE(MayBeOneJob(plain, name("")));
  EXPECT_TRUE(MayBeOneJob(plain, slurm));  // a rank from another shell does not know the id
  EXPECT_FALSE(MayBeOneJob(slurm, name("train a.yaml", "SLURM_JOB_ID", "8")));
  EXPECT_TRUE(MayBeOneJob(plain, name("train a.yaml", "TORCHELASTIC_RUN_ID", "none")));
  EXPECT_FALSE(MayBeOneJob(name("x", "TORCHELASTIC_RUN_ID", "a"), name("x", "TORCHELASTIC_RUN_ID", "b")));
  std::filesystem::current_path("/");
  JobName elsewhere = name("train a.yaml");
  std::filesystem::current_path(here);
  EXPECT_EQ(MayBeOneJob(plain, elsewhere), here == "/");
  elsewhere.host++;  // folders may have other paths on other hosts
  EXPECT_TRUE(MayBeOneJob(plain, elsewhere));
}

class Secrets : public testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override {
    Clear();
    std::filesystem::remove_all(folder_);
  }
  static void Clear() {
    for (const char* name : {"WEFT_SECRET", "WEFT_SECRET_FILE", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"})
      unsetenv(name);
  }
  static std::string WithFile(const std::string& path) {
    setenv("WEFT_SECRET_FILE", path.c_str(), 1);
    return ErrorOf([] { SecretFromEnvironment(); });
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("weft-secrets-" + std::to_string(getpid()));
};

TEST_F(Secrets, ComeFromTheEnvironmentInOrder) {
  std::filesystem::create_directory(folder_);
  EXPECT_FALSE(SecretFromEnvironment());
  setenv("SLURM_JOB_ID", "77", 1);
  JobSecret of_job = SecretFromEnvironment().value();
  EXPECT_NE(of_job.note.find("SLURM_JOB_ID, which other users of this cluster can read"), std::string::npos);
  std::ofstream(folder_ / "secret") << "a secret of a file\n";
  std::filesystem::permissions(folder_ / "secret", std::filesystem::perms(0640));
  EXPECT_EQ(WithFile(folder_ / "secret"), "");
  std::string note = SecretFromEnvironment()->note;
  EXPECT_NE(note.find("is open to other users (mode 640): chmod 600 it"), std::string::npos) << note;
  std::filesystem::permissions(folder_ / "secret", std::filesystem::perms(0600));
  JobSecret of_file = SecretFromEnvironment().value();
  EXPECT_EQ(of_file.note, "");
  setenv("WEFT_SECRET", "a secret of a file", 1);
  EXPECT_EQ(SecretFromEnvironment()->key, of_file.key);
  setenv("WEFT_SECRET", "short", 1);
  EXPECT_NE(SecretFromEnvironment()->key, of_file.key);
  EXPECT_NE(SecretFromEnvironment()->note.find("WEFT_SECRET has 5 characters"), std::string::npos);
  setenv("WEFT_SECRET", "77", 1);
  EXPECT_NE(SecretFromEnvironment()->key, of_job.key);
  setenv("WEFT_SECRET", "", 1);
  EXPECT_NE(ErrorOf([] { SecretFromEnvironment(); }).find("WEFT_SECRET is empty"), std::string::npos);
}

TEST_F(Secrets, AFileThatIsNoneIsNamed) {
  std::filesystem::create_directory(folder_);
  EXPECT_NE(WithFile(folder_ / "none").find("cannot open WEFT_SECRET_FILE=\""), std::string::npos);
  EXPECT_NE(WithFile(folder_).find("is no regular file"), std::string::npos);
  mkfifo((folder_ / "fifo").c_str(), 0600);
  EXPECT_NE(WithFile(folder_ / "fifo").find("is no regular file"), std::string::npos);
  EXPECT_NE(WithFile("/dev/zero").find("is no regular file"), std::string::npos);
  std::ofstream(folder_ / "empty") << " \n";
  EXPECT_NE(WithFile(folder_ / "empty").find("WEFT_SECRET_FILE is empty"), std::string::npos);
}

// A caller that keeps asking must not delay others, so rank 0 answers a few at a time and serves its network in
// between.
TEST_F(Secrets, TheLocalOneIsGivenToAFewAtATime) {
  int port = PortOf(OpenListener("127.0.0.1", 0));
  LocalSecret secret(port);
  constexpr int kAsk = 40;
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kAsk; i++)
    threads.emplace_back([&] { answered += LocalSecret::Fetch(port, Clock::now() + 20s) == secret.key(); });
  for (int served = 0; served < kAsk; served = answered) {
    secret.Serve();
    std::this_thread::sleep_for(300ms);  // all have asked and some have their answer
    EXPECT_LE(answered - served, 16);
  }
  for (std::thread& thread : threads) thread.join();
}

// Another user gets no secret from rank 0, and does not trust a rank 0 of this user.
TEST_F(Secrets, TheLocalOneIsOfOneUser) {
  int port = PortOf(OpenListener("127.0.0.1", 0));
  EXPECT_FALSE(LocalSecret::Fetch(port, Clock::now() + 1s));
  LocalSecret secret(port);
  EXPECT_THROW(LocalSecret{port}, Error);
  std::atomic<bool> quit{false};
  std::thread server([&] {
    for (; !quit; std::this_thread::sleep_for(1ms)) secret.Serve();
  });
  EXPECT_EQ(LocalSecret::Fetch(port, Clock::now() + 5s), secret.key());
  pid_t pid = geteuid() == 0 ? fork() : -1;
  if (pid == 0) {
    bool is_other = setresuid(65534, 65534, 65534) == 0;
    std::string error = ErrorOf([&] { LocalSecret::Fetch(port, Clock::now() + 5s); });
    _exit(is_other && error.find("of another user, 0") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  if (pid > 0) {
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  quit = true;
  server.join();
}

// In a user namespace without a mapping, this user, rank 0's user and everybody else have one id. So the secret must be
// refused.
TEST_F(Secrets, TheLocalOneIsOfNoUnmappedUser) {
  int port = PortOf(OpenListener("127.0.0.1", 0));
  LocalSecret secret(port);
  pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(77);
    std::string error = ErrorOf([&] { LocalSecret::Fetch(port, Clock::now() + 300ms); });
    _exit(error.find("of another user, " + std::to_string(geteuid())) != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespace may be made here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weft
