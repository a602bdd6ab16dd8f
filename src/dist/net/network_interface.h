// NetworkInterface: the addresses of this host that a group may listen on.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// One address of a network interface. An interface without an address has one entry with an empty address.
struct NetworkInterface {
  std::string name, address;
  bool ipv6 = false, up = false, loopback = false;
};

// Returns the interfaces of this host in the system's order, those without an address last. Link-local addresses are
// left out. Throws Error if the system cannot list them.
std::vector<NetworkInterface> NetworkInterfaces();

// Throws Error, which lists the interfaces, unless `name` is up and has an address. With ranks on several hosts, `name`
// must not be the loopback.
void CheckInterface(std::string_view name, const std::vector<NetworkInterface>& interfaces, bool several_hosts);

// Returns the first address of an interface that is up and is not the loopback, IPv4 before IPv6. Throws Error if there
// is none.
std::string ReachableAddress(const std::vector<NetworkInterface>& interfaces);

// Returns the numeric address on which this rank listens for the other ranks. It is the address of the interface
// WEFT_INTERFACE if that is set, else 127.0.0.1 if all ranks share a host, else ReachableAddress. Throws Error if there
// is none.
std::string ListenAddress(bool several_hosts);

}  // namespace weft
