// NetworkInterface: the addresses of this host that a group may listen on.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// One address of an interface; an interface without any has one entry with an empty address.
struct NetworkInterface {
  std::string name, address;
  bool ipv6 = false, up = false, loopback = false;
};

// Of this host, in the system's order, without link-local addresses. Throws Error when they cannot be listed.
std::vector<NetworkInterface> NetworkInterfaces();

// Throws Error, listing the interfaces there are, unless `name` is up and has an address; where the ranks are on
// several hosts, it must not be the loopback.
void CheckInterface(std::string_view name, const std::vector<NetworkInterface>& interfaces, bool several_hosts);

// The first address of an interface that is up and not loopback; IPv4 before IPv6. Throws Error when there is none.
std::string ReachableAddress(const std::vector<NetworkInterface>& interfaces);

// The numeric address that a rank may listen on for the others: of the interface WEFT_INTERFACE where that is set, else
// the loopback when all ranks share a host, else the reachable one. Throws Error when there is none.
std::string ListenAddress(bool several_hosts);

}  // namespace weft
