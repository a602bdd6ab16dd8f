#include "weft/dist/group/gloo/gloo_context.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gloo/config.h>

#include <algorithm>

#include "weft/core/base/error.h"
#include "weft/core/testing/fault.h"
#include "weft/dist/group/gloo/socket_context.h"
#include "weft/dist/net/link_rate.h"
#include "weft/dist/net/network_interface.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kConnect{1000};  // the least time to connect ranks that have all come

std::string ListOf(const std::vector<int>& ranks) { return fmt::format("{}", fmt::join(ranks, " ")); }

}  // namespace

std::string TryGloo() {
  Socket listener = OpenListener(ListenAddress(false), 0);
  Address address;
  address.length = sizeof(address.storage);
  getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  std::string text = ToString(address);
  return fmt::format("{}.{}.{}, sockets on {}", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH,
                     text.substr(0, text.rfind(':')));
}

// The ranks meet and connect within one deadline.
GlooContext::GlooContext(int my_rank, const std::vector<int>& ranks, Bootstrap& bootstrap,
                         std::chrono::milliseconds timeout)
    : gloo::Context(my_rank, int(ranks.size())) {
  auto deadline = Clock::now() + timeout;
  setTimeout(timeout);
  std::vector<std::string> all = bootstrap.AllGather(ListOf(ranks));
  for (int r : ranks)
    WEFT_CHECK(
        all[size_t(r)] == all[size_t(bootstrap.rank())],
        fmt::format("gloo: the ranks disagree on the mesh: rank {} makes a group of ranks {}, and rank {} one of {}",
                    bootstrap.rank(), ListOf(ranks), r, all[size_t(r)]));
  FaultAt("connect");
  auto transport = std::make_shared<SocketContext>(rank, size);
  transport->setTimeout(timeout);
  // All ranks have made the same number of exchanges, and no other group has this number.
  auto sockets = bootstrap.network().ConnectGroup(ranks, uint64_t(bootstrap.exchanges()),
                                                  std::max(deadline, Clock::now() + kConnect));
  int64_t rate_limit = LinkRate();
  for (int i = 0; i < size; i++) {
    if (i == rank) continue;
    LimitRate(sockets[size_t(i)], rate_limit);
    transport->createPair(i)->setLocalRank(bootstrap.local_rank());
    transport->Adopt(i, std::move(sockets[size_t(i)]), fmt::format("rank {}", ranks[size_t(i)]));
  }
  device_ = std::make_shared<SocketDevice>();
  transportContext_ = std::move(transport);
}

}  // namespace weft
