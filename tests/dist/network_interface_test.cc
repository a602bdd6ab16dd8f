#include "weft/dist/net/network_interface.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "weft/core/base/error.h"
#include "weft/dist/net/tcp_socket.h"

namespace weft {
namespace {

const std::vector<NetworkInterface> kHost = {
    {.name = "lo", .address = "127.0.0.1", .up = true, .loopback = true},
    {.name = "eth0", .address = "fd00::2", .ipv6 = true, .up = true},
    {.name = "eth1", .address = "10.0.0.3", .up = true},
    {.name = "ib0", .up = true},
    {.name = "ib1", .address = "10.1.0.3"},
};

template <class Fn>
std::string ErrorOf(Fn fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(NetworkInterface, CheckNamesWhatIsWrongAndWhatThereIs) {
  struct Case {
    const char* name;
    bool several_hosts;
    const char* why;  // "" if the interface is fine
  };
  for (const Case& c : {Case{"eth1", true, ""},
                        {"eth0", true, ""},
                        {"lo", false, ""},
                        {"lo", true, "is the loopback, but the ranks are on several hosts"},
                        {"eth7", false, "is not a network interface"},
                        {"eth", false, "is not a network interface"},
                        {"", false, "is not a network interface"},
                        {"ib0", true, "has no address"},
                        {"ib1", true, "is down"}}) {
    std::string text = ErrorOf([&] { CheckInterface(c.name, kHost, c.several_hosts); });
    if (!*c.why) {
      EXPECT_EQ(text, "") << c.name;
      continue;
    }
    std::string begin = "gloo: WEFT_INTERFACE=\"" + std::string(c.name) + "\" " + c.why;
    EXPECT_EQ(text.substr(0, begin.size()), begin);
    EXPECT_NE(text.find("lo (127.0.0.1), eth0 (fd00::2), eth1 (10.0.0.3), ib0 (no address), ib1 (down)"),
              std::string::npos)
        << text;
  }
}

TEST(NetworkInterface, TheReachableAddressIsUpAndIPv4First) {
  EXPECT_EQ(ReachableAddress(kHost), "10.0.0.3");
  EXPECT_EQ(ReachableAddress({kHost[0], kHost[1], kHost[3]}), "fd00::2");
  std::string text = ErrorOf([] { ReachableAddress({kHost[0], kHost[3], kHost[4]}); });
  EXPECT_NE(text.find("lo (127.0.0.1), ib0 (no address), ib1 (down)"), std::string::npos) << text;
  EXPECT_NE(ErrorOf([] { ReachableAddress({}); }).find("the interfaces: none"), std::string::npos);
}

TEST(NetworkInterface, ThisHostHasItsLoopback) {
  auto all = NetworkInterfaces();
  auto lo = std::find_if(all.begin(), all.end(), [](const auto& i) { return i.address == "127.0.0.1"; });
  ASSERT_NE(lo, all.end());
  EXPECT_TRUE(lo->up && lo->loopback && !lo->ipv6);
}

class WeftInterface : public testing::Test {
 protected:
  void TearDown() override { unsetenv("WEFT_INTERFACE"); }
  static std::string ListensOn(const char* interface, bool several_hosts) {
    if (interface)
      setenv("WEFT_INTERFACE", interface, 1);
    else
      unsetenv("WEFT_INTERFACE");
    return ListenAddress(several_hosts);
  }
};

TEST_F(WeftInterface, RanksListenThere) {
  int tried = 0;
  for (const NetworkInterface& i : NetworkInterfaces()) {
    if (!i.up || i.address.empty()) continue;
    for (bool several_hosts : {false, true}) {
      if (several_hosts && i.loopback) continue;
      std::string address = ListensOn(i.name.c_str(), several_hosts);
      std::vector<NetworkInterface> all = NetworkInterfaces();
      EXPECT_TRUE(
          std::any_of(all.begin(), all.end(), [&](const auto& a) { return a.name == i.name && a.address == address; }))
          << address << " is not of " << i.name;
      EXPECT_GT(PortOf(OpenListener(address, 0)), 0);
      tried++;
    }
  }
  EXPECT_GE(tried, 1);  // at least the loopback
  EXPECT_EQ(ListensOn(nullptr, false), "127.0.0.1");
}

TEST_F(WeftInterface, AnUnknownOneIsRefusedWithTheOnesThereAre) {
  for (const char* bad : {"no-such-interface", ""}) {
    std::string text = ErrorOf([&] { ListensOn(bad, false); });
    EXPECT_NE(text.find("WEFT_INTERFACE=\"" + std::string(bad) + "\" is not a network interface"), std::string::npos)
        << text;
    EXPECT_NE(text.find("(127.0.0.1)"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace weft
