// stranger SECONDS PROGRAM, for strangers_test.sh: a process that is no part of the job. It waits until processes named
// PROGRAM begin to listen on this host, and makes one connection of each kind to each of their sockets:
//
//   close    closes it at once                  silent   sends nothing
//   huge     sends lengths of 2^40              old      sends the hello of an earlier protocol, as rank 1 of 3
//   guess    begins the handshake correctly and sends a wrong proof
//   reflect  sends back what it receives
//   secret   keeps asking for the secret that rank 0 gives to ranks of its own user, whatever the answer
//
// It ends after SECONDS, or when its input ends. It prints how many listeners it found, and how many connections it
// made to them.
//
// stranger relay PORT SECONDS: listens at [::1]:PORT, where a rank may look for rank 0 first, and forwards bytes
// between its callers and 127.0.0.1:PORT. Prints how many bytes it has forwarded.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weft/core/base/error.h"
#include "weft/dist/net/handshake.h"
#include "weft/dist/net/job_secret.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kListens = 0x0a;  // the state "listening" in /proc/net/tcp

namespace fs = std::filesystem;

// Returns the addresses of all listening sockets, such as "0100007F:7530", with their inodes.
std::map<std::string, std::string> Listeners() {
  std::map<std::string, std::string> listeners;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line, number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    std::getline(file, line);
    while (file >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode &&
           std::getline(file, line))
      if (std::stoi(state, nullptr, 16) == kListens) listeners[local] = inode;
  }
  return listeners;
}

// Whether a process named `program` has the socket. Processes may start and end during the search.
bool IsOf(const std::string& inode, const std::string& program) {
  std::error_code error;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc", error)) {
    std::string name;
    std::getline(std::ifstream(process.path() / "comm"), name);
    if (name != program) continue;
    for (const fs::directory_entry& file : fs::directory_iterator(process.path() / "fd", error))
      if (fs::read_symlink(file.path(), error) == "socket:[" + inode + "]") return true;
  }
  return false;
}

int PortOf(const std::string& local) { return int(std::stol(local.substr(local.find(':') + 1), nullptr, 16)); }

// All listeners here are on loopback or on all interfaces.
Address AddressOf(const std::string& local) {
  return Resolve(local.find(':') > 8 ? "::1" : "127.0.0.1", PortOf(local)).at(0);
}

struct Stranger {
  std::string kind;
  Socket socket;
  int steps = 0;
};

// Keep asking at the Unix sockets that rank 0 may have for these ports.
class Askers {
 public:
  ~Askers() {
    quit_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  void Ask(int port) {
    if (threads_.size() >= kMost) return;
    threads_.emplace_back([this, port] {
      while (!quit_) {
        try {
          if (!LocalSecret::Fetch(port, Clock::now() + 100ms)) std::this_thread::sleep_for(5ms);
        } catch (const Error&) {  // the secret of another user
          return;
        }
      }
    });
  }

 private:
  static constexpr size_t kMost = 16;
  std::atomic<bool> quit_{false};
  std::vector<std::thread> threads_;
};

template <class T>
void Send(const Stranger& to, const T& value) {
  [[maybe_unused]] ssize_t sent = send(to.socket.fd(), &value, sizeof(value), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Begin(Stranger& stranger) {
  const uint64_t huge[] = {uint64_t(1) << 40, uint64_t(1) << 40, uint64_t(1) << 40};
  const struct {
    uint64_t magic = 0x3178'6574'6665'7721;
    uint32_t rank = 1, size = 3;
    uint64_t bytes = 0;
  } old;
  const Guest::Hello hello{Guest::kProtocol, Purpose::kPair, 0, Key{}};
  if (stranger.kind == "close") stranger.socket = Socket();
  if (stranger.kind == "huge") Send(stranger, huge);
  if (stranger.kind == "old") Send(stranger, old);
  if (stranger.kind == "guess" || stranger.kind == "reflect") Send(stranger, hello);
}

// Called when the stranger has received something.
void GoOn(Stranger& stranger) {
  char bytes[256];
  ssize_t n = recv(stranger.socket.fd(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n <= 0 || stranger.steps++ > 10) {
    stranger.socket = Socket();
    return;
  }
  Guest::Proof proof{{.from = 1, .to = 0, .size = 3}, Key{}};
  if (stranger.kind == "guess") Send(stranger, proof);
  if (stranger.kind == "reflect") [[maybe_unused]]
    ssize_t sent = send(stranger.socket.fd(), bytes, size_t(n), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// One stranger of each kind. Returns how many have a connection.
int ConnectStrangers(const Address& address, std::vector<Stranger>& strangers) {
  int connected = 0;
  for (const char* kind : {"close", "silent", "huge", "old", "guess", "reflect"}) {
    Connection there = ConnectTo(address, Clock::now() + 1s);
    if (!there.socket) continue;
    connected++;
    Begin(strangers.emplace_back(Stranger{kind, std::move(there.socket)}));
  }
  return connected;
}

void Run(double seconds, const std::string& program) {
  std::set<std::string> known;
  for (const auto& [local, inode] : Listeners()) known.insert(local);
  std::vector<Stranger> strangers;
  Askers askers;
  int found = 0, connected = 0;
  fmt::print("ready\n");
  std::fflush(stdout);
  for (auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end;) {
    for (const auto& [local, inode] : Listeners()) {
      if (!known.insert(local).second || !IsOf(inode, program)) continue;
      found++;
      for (int i = 0; i < 2; i++) askers.Ask(PortOf(local));
      connected += ConnectStrangers(AddressOf(local), strangers);
    }
    std::vector<pollfd> polls{{0, POLLIN, 0}};
    for (const Stranger& stranger : strangers) polls.push_back({stranger.socket.fd(), POLLIN, 0});
    poll(polls.data(), polls.size(), 1);
    char byte;
    if (polls[0].revents && read(0, &byte, 1) <= 0) break;
    for (size_t i = 1; i < polls.size(); i++)
      if (polls[i].revents) GoOn(strangers[i - 1]);
    std::erase_if(strangers, [](const Stranger& stranger) { return !stranger.socket; });
  }
  fmt::print("found {} listeners, made {} connections\n", found, connected);
}

// Forwards the bytes that are there. Returns false at the end.
bool Pass(const Socket& from, const Socket& to, size_t* passed) {
  char bytes[4096];
  ssize_t n = recv(from.fd(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n <= 0) return false;
  *passed += size_t(n);
  return send(to.fd(), bytes, size_t(n), MSG_NOSIGNAL) == n;
}

void Relay(int port, double seconds) {
  Socket listener = OpenListener("::1", port);
  std::vector<std::pair<Socket, Socket>> ways;
  size_t passed = 0;
  fmt::print("ready\n");
  std::fflush(stdout);
  for (auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end;) {
    std::vector<pollfd> polls{{listener.fd(), POLLIN, 0}};
    for (const auto& [caller, rank] : ways)
      polls.insert(polls.end(), {{caller.fd(), POLLIN, 0}, {rank.fd(), POLLIN, 0}});
    poll(polls.data(), polls.size(), 10);
    for (size_t i = 0; i < ways.size(); i++) {
      auto& [caller, rank] = ways[i];
      bool goes_on = !(polls[1 + 2 * i].revents && !Pass(caller, rank, &passed)) &&
                     !(polls[2 + 2 * i].revents && !Pass(rank, caller, &passed));
      if (!goes_on) caller = Socket(), rank = Socket();
    }
    std::erase_if(ways, [](const auto& way) { return !way.first; });
    Socket caller(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller) continue;
    Connection rank = ConnectTo(Resolve("127.0.0.1", port).at(0), Clock::now() + 1s);
    if (rank.socket) ways.emplace_back(std::move(caller), std::move(rank.socket));
  }
  fmt::print("passed on {} bytes\n", passed);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "relay") {
    weft::Relay(std::atoi(argv[2]), std::atof(argv[3]));
    return 0;
  }
  if (argc != 3) return 2;
  weft::Run(std::atof(argv[1]), argv[2]);
  return 0;
}
