#include "dist/gloo_context.h"

#include <fmt/format.h>
#include <gloo/config.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <sched.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "dist/network_interface.h"

namespace weft {
namespace {

// Gloo's loop thread takes a pair's lock with try_lock and spins through epoll when it is held: if the holder was
// preempted on the same core, nothing moves until the next scheduler tick (4 ms). A SCHED_BATCH thread does not preempt
// the holder when it wakes. The thread inherits the policy of the one that makes the device.
class BatchScheduling {
 public:
  BatchScheduling() : policy_(sched_getscheduler(0)) {
    sched_getparam(0, &param_);
    sched_param none{};
    changed_ = policy_ == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &none) == 0;
  }
  ~BatchScheduling() {
    if (changed_) sched_setscheduler(0, policy_, &param_);
  }

 private:
  int policy_;
  sched_param param_{};
  bool changed_;
};

// The addresses of one rank's pairs, by rank of the group; empty for itself.
std::string Join(const std::vector<std::string>& addresses) {
  std::string bytes;
  for (const std::string& a : addresses) {
    uint32_t length = uint32_t(a.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes += a;
  }
  return bytes;
}

std::vector<char> Entry(std::string_view bytes, int index) {
  for (int i = 0;; i++) {
    uint32_t length = 0;
    WEFT_CHECK(bytes.size() >= sizeof(length),
               "gloo: a rank sent no address for this group: the ranks disagree on the mesh");
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes.remove_prefix(sizeof(length));
    WEFT_CHECK(bytes.size() >= length, "gloo: a rank sent an address that is cut off");
    if (i == index) return std::vector<char>(bytes.begin(), bytes.begin() + length);
    bytes.remove_prefix(length);
  }
}

// Gloo writes to sockets as to files: where the peer has gone between two messages, the signal would end this process
// before the error does. Programs that have a handler of their own keep it.
void IgnoreBrokenPipes() {
  struct sigaction action {};
  sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

std::shared_ptr<gloo::transport::Device> MakeGlooDevice(const Bootstrap& bootstrap) {
  IgnoreBrokenPipes();
  gloo::transport::tcp::attr attr;
  bool several_hosts = bootstrap.local_size() != bootstrap.world_size();
  if (const char* interface = std::getenv("WEFT_INTERFACE")) {
    CheckInterface(interface, NetworkInterfaces(), several_hosts);
    attr.iface = interface;
  } else {
    attr.hostname = several_hosts ? ReachableAddress(NetworkInterfaces()) : "127.0.0.1";
  }
  BatchScheduling scope;
  try {
    return gloo::transport::tcp::CreateDevice(attr);
  } catch (const std::exception& e) {
    Fail(fmt::format("gloo: cannot use {} \"{}\": {}", attr.iface.empty() ? "address" : "WEFT_INTERFACE",
                     attr.iface.empty() ? attr.hostname : attr.iface, e.what()));
  }
}

std::string TryGloo() {
  std::string device = MakeGlooDevice(*MakeSoloBootstrap())->str();
  return fmt::format("{}.{}.{}, {}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH, device);
}

GlooContext::GlooContext(int my_rank, const std::vector<int>& ranks, Bootstrap& bootstrap,
                         std::shared_ptr<gloo::transport::Device> device, std::chrono::milliseconds timeout)
    : gloo::Context(my_rank, int(ranks.size())) {
  setTimeout(timeout);
  auto transport = device->createContext(rank, size);
  transport->setTimeout(timeout);  // before the pairs are made: they copy it
  std::vector<std::string> mine(ranks.size());
  for (int i = 0; i < size; i++) {
    if (i == rank) continue;
    auto& pair = transport->createPair(i);
    pair->setLocalRank(bootstrap.local_rank());
    auto bytes = pair->address().bytes();
    mine[size_t(i)].assign(bytes.begin(), bytes.end());
  }
  auto all = bootstrap.AllGather(Join(mine));
  for (int i = 0; i < size; i++)
    if (i != rank) transport->getPair(i)->connect(Entry(all[size_t(ranks[size_t(i)])], rank));
  device_ = std::move(device);
  transportContext_ = std::move(transport);
}

}  // namespace weft
