#include "weft/dist/net/network_interface.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "weft/core/base/error.h"

namespace weft {
namespace {

// Returns "" for families other than IPv4 and IPv6, and for link-local addresses, which are useless without a scope.
std::string AddressText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (!address) return "";
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  if (address->sa_family == AF_INET6) {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&ip)) inet_ntop(AF_INET6, &ip, text, sizeof(text));
  }
  return text;
}

// "lo (127.0.0.1), eth0 (down)"
std::string Describe(const std::vector<NetworkInterface>& interfaces) {
  std::string text;
  for (const NetworkInterface& i : interfaces)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", i.name,
                        !i.up               ? "down"
                        : i.address.empty() ? "no address"
                                            : i.address);
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<NetworkInterface> NetworkInterfaces() {
  ifaddrs* list = nullptr;
  WEFT_CHECK(getifaddrs(&list) == 0, "gloo: cannot list the network interfaces of this host");
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<NetworkInterface> with, without;
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    std::string address = AddressText(i->ifa_addr);
    bool ipv6 = i->ifa_addr && i->ifa_addr->sa_family == AF_INET6;
    auto& to = address.empty() ? without : with;
    to.push_back({i->ifa_name, address, ipv6, (i->ifa_flags & IFF_UP) != 0, (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  // getifaddrs also lists a link-layer entry for every interface.
  for (const NetworkInterface& i : without)
    if (std::none_of(with.begin(), with.end(), [&](const auto& w) { return w.name == i.name; })) with.push_back(i);
  return with;
}

void CheckInterface(std::string_view name, const std::vector<NetworkInterface>& interfaces, bool several_hosts) {
  auto refuse = [&](const char* why) {
    Fail(
        fmt::format("gloo: WEFT_INTERFACE=\"{}\" {}; the interfaces of this host: {}; set it to one of them, or unset "
                    "it to have one chosen",
                    name, why, Describe(interfaces)));
  };
  auto found = std::find_if(interfaces.begin(), interfaces.end(), [&](const auto& i) { return i.name == name; });
  if (found == interfaces.end()) refuse("is not a network interface");
  if (!found->up) refuse("is down");
  if (found->address.empty()) refuse("has no address");
  if (found->loopback && several_hosts) refuse("is the loopback, but the ranks are on several hosts");
}

std::string ReachableAddress(const std::vector<NetworkInterface>& interfaces) {
  for (bool ipv6 : {false, true})
    for (const NetworkInterface& i : interfaces)
      if (i.up && !i.loopback && !i.address.empty() && i.ipv6 == ipv6) return i.address;
  Fail(
      fmt::format("gloo: the ranks are on several hosts, but no interface of this host is up, has an address and is "
                  "not the loopback; the interfaces: {}; bring one up and set WEFT_INTERFACE to it",
                  Describe(interfaces)));
}

std::string ListenAddress(bool several_hosts) {
  const char* name = std::getenv("WEFT_INTERFACE");
  if (!name) return several_hosts ? ReachableAddress(NetworkInterfaces()) : "127.0.0.1";
  std::vector<NetworkInterface> interfaces = NetworkInterfaces();
  CheckInterface(name, interfaces, several_hosts);
  return std::find_if(interfaces.begin(), interfaces.end(), [&](const auto& i) { return i.name == name; })->address;
}

}  // namespace weft
