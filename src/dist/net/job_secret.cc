#include "weft/dist/net/job_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "weft/core/base/error.h"
#include "weft/core/host/small_file.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxFile = 4096;
constexpr int kServedAtOnce = 16;                    // other connections are served in between
constexpr std::chrono::milliseconds kNoSockets{50};  // pause when this process has no free file descriptor
constexpr size_t kStrong = 16;  // characters; a shorter one can be found by trial from a recorded handshake

constexpr const char* kNoGuess = "32 random bytes cannot be guessed: export WEFT_SECRET=$(openssl rand -hex 32)";

JobSecret FromText(const std::string& text, const char* origin) {
  WEFT_CHECK(!text.empty(), fmt::format("secret: {} is empty; {}", origin, kNoGuess));
  JobSecret secret{Hmac(Key{}, {"weft job secret", text}), ""};
  if (text.size() < kStrong)
    secret.note = fmt::format("{} has {} characters, which can be guessed; {}", origin, text.size(), kNoGuess);
  return secret;
}

// Checks the type before it reads, because a FIFO or a device could block this rank forever.
JobSecret FromFile(const std::string& path) {
  Socket file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  WEFT_CHECK(file, fmt::format("secret: cannot open WEFT_SECRET_FILE=\"{}\": {}", path, std::strerror(errno)));
  struct stat status {};
  WEFT_CHECK(fstat(file.fd(), &status) == 0 && S_ISREG(status.st_mode),
             fmt::format("secret: WEFT_SECRET_FILE=\"{}\" is no regular file", path));
  std::string text(kMaxFile, '\0');
  ssize_t n = read(file.fd(), text.data(), text.size());
  WEFT_CHECK(n >= 0, fmt::format("secret: cannot read WEFT_SECRET_FILE=\"{}\": {}", path, std::strerror(errno)));
  text.resize(size_t(n));
  JobSecret secret = FromText(text.substr(0, text.find_last_not_of(" \t\r\n") + 1), "WEFT_SECRET_FILE");
  if (status.st_mode & (S_IRWXG | S_IRWXO))
    secret.note = fmt::format("WEFT_SECRET_FILE=\"{}\" is open to other users (mode {:o}): chmod 600 it{}{}", path,
                              status.st_mode & 0777, secret.note.empty() ? "" : "; ", secret.note);
  return secret;
}

JobSecret FromScheduler(const char* name, const std::string& id) {
  return {
      Hmac(Key{}, {"weft scheduler's job", name, id}),
      fmt::format("the ranks know each other by {}, which other users of this cluster can read; {}", name, kNoGuess),
      /*is_readable=*/true};
}

// A zero first byte puts the name into the abstract namespace.
Address NameOf(int port) {
  Address address;
  auto& name = reinterpret_cast<sockaddr_un&>(address.storage);
  std::string text = fmt::format("weft.rendezvous.{}", port);
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path + 1, text.data(), text.size());
  address.length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

// Returns the user at the other end, or -1.
uid_t PeerUser(const Socket& socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  bool known = getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  return known ? peer.uid : uid_t(-1);
}

// Returns whether the id may stand for any user that this user namespace does not map, as the overflow id does.
bool IsAmbiguous(uid_t user) {
  std::istringstream overflow(SmallFileText("/proc/sys/kernel/overflowuid")), map(SmallFileText("/proc/self/uid_map"));
  uint64_t id = 65534, inside = 0, outside = 0, count = 0;
  overflow >> id;
  bool maps_all = map >> inside >> outside >> count && count >= uint64_t(uid_t(-1));
  return user == id && !maps_all;
}

// Returns whether the process at the other end belongs to this user.
bool IsOurs(uid_t peer) { return peer == geteuid() && !IsAmbiguous(peer); }

}  // namespace

std::optional<JobSecret> SecretFromEnvironment() {
  if (const char* text = std::getenv("WEFT_SECRET")) return FromText(text, "WEFT_SECRET");
  if (const char* path = std::getenv("WEFT_SECRET_FILE")) return FromFile(path);
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"})
    if (const char* id = std::getenv(name); id && *id) return FromScheduler(name, id);
  return std::nullopt;
}

LocalSecret::LocalSecret(int port)
    : key_(RandomKey()), listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  Address name = NameOf(port);
  bool bound = listener_ && bind(listener_.fd(), reinterpret_cast<const sockaddr*>(&name.storage), name.length) == 0 &&
               listen(listener_.fd(), 1024) == 0;
  WEFT_CHECK(bound,
             fmt::format("secret: rank 0 cannot listen at the Unix socket @weft.rendezvous.{}: {}; choose another "
                         "MASTER_PORT, or export WEFT_SECRET",
                         port, std::strerror(errno)));
}

void LocalSecret::Serve() {
  for (int i = 0; i < kServedAtOnce; i++) {
    Socket guest(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!guest && (errno == EMFILE || errno == ENFILE)) std::this_thread::sleep_for(kNoSockets);  // fd() stays readable
    if (!guest) return;
    uid_t user = PeerUser(guest);
    if (IsOurs(user))
      send(guest.fd(), key_.data(), key_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    else
      log_.Say(fmt::format("user {}", user), "ranks of several users need a secret: export WEFT_SECRET to all ranks");
  }
}

std::optional<Key> LocalSecret::Fetch(int port, Clock::time_point deadline) {
  Connection rank0 = ConnectTo(NameOf(port), deadline);
  if (!rank0.socket) return std::nullopt;
  uid_t user = PeerUser(rank0.socket);
  WEFT_CHECK(IsOurs(user),
             fmt::format("secret: rank 0 at port {} is a process of another user, {}; ranks of several users need a "
                         "secret: export WEFT_SECRET to all ranks",
                         port, user));
  Key key{};
  try {
    ReadAll(rank0.socket.fd(), key.data(), key.size(), deadline, "rank 0");
  } catch (const Error&) {  // it has ended or is late
    return std::nullopt;
  }
  return key;
}

}  // namespace weft
