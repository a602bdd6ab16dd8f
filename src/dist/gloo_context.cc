#include "dist/gloo_context.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace weft {
namespace {

// The first address of an interface that is up and not loopback; IPv4 before IPv6.
std::string ReachableAddress() {
  ifaddrs* list = nullptr;
  WEFT_CHECK(getifaddrs(&list) == 0, "gloo: cannot list the network interfaces");
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (int family : {AF_INET, AF_INET6}) {
    for (ifaddrs* i = list; i; i = i->ifa_next) {
      if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
        continue;
      char text[INET6_ADDRSTRLEN] = {};
      const void* address = family == AF_INET
                                ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr)
                                : &reinterpret_cast<sockaddr_in6*>(i->ifa_addr)->sin6_addr;
      if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(static_cast<const in6_addr*>(address))) continue;
      if (inet_ntop(family, address, text, sizeof(text))) return text;
    }
  }
  Fail(
      "gloo: the ranks are on several hosts, but this host has no network interface besides loopback; set "
      "WEFT_INTERFACE");
}

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

}  // namespace

std::shared_ptr<gloo::transport::Device> MakeGlooDevice(const Bootstrap& bootstrap) {
  gloo::transport::tcp::attr attr;
  if (const char* interface = std::getenv("WEFT_INTERFACE"))
    attr.iface = interface;
  else if (bootstrap.local_size() == bootstrap.world_size())
    attr.hostname = "127.0.0.1";
  else
    attr.hostname = ReachableAddress();
  BatchScheduling scope;
  try {
    return gloo::transport::tcp::CreateDevice(attr);
  } catch (const std::exception& e) {
    Fail(fmt::format("gloo: cannot use {} \"{}\": {}", attr.iface.empty() ? "address" : "WEFT_INTERFACE",
                     attr.iface.empty() ? attr.hostname : attr.iface, e.what()));
  }
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
