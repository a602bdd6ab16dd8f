#include "weft/dist/start/slurm.h"

#include <gtest/gtest.h>

#include <set>

#include "weft/core/base/error.h"

namespace weft {
namespace {

TEST(Slurm, FirstHostOfAList) {
  struct Case {
    const char *list, *first;
  };
  for (const Case& c : {Case{"node1", "node1"},
                        {"node1,node2", "node1"},
                        {"gpu-a.cluster.example,gpu-b", "gpu-a.cluster.example"},
                        {"node[003-005,9]", "node003"},
                        {"node[9,003-005]", "node9"},
                        {"node[7]", "node7"},
                        {"n[08-11]-ib", "n08-ib"},
                        {"rack[1-2]node[03-04,10]", "rack1node03"},
                        {"a[1,3],b[2-4],login", "a1"},
                        {"login,a[1,3]", "login"},
                        {"[10-12]", "10"},
                        {"n[18446744073709551617-18446744073709551618]", "n18446744073709551617"}})
    EXPECT_EQ(FirstSlurmHost(c.list), c.first) << c.list;
}

TEST(Slurm, WhatIsNoHostListIsRefused) {
  struct Case {
    const char *list, *why;
  };
  for (const Case& c : {Case{"", "expected a host at character 1, got the end"},
                        {",a", "expected a host at character 1, got \",\""},
                        {"a,", "expected a host at character 3, got the end"},
                        {"a,,b", "expected a host at character 3"},
                        {"node[", "expected a digit at character 6, got the end"},
                        {"node[]", "expected a digit at character 6, got \"]\""},
                        {"node[1", "expected \"]\" at character 7, got the end"},
                        {"node[1-]", "expected a digit at character 8"},
                        {"node[-2]", "expected a digit at character 6"},
                        {"node[1-2-3]", "expected \"]\" at character 9"},
                        {"node[1,]", "expected a digit at character 8"},
                        {"node[a]", "expected a digit at character 6"},
                        {"node[1[2]]", "expected \"]\" at character 7, got \"[\""},
                        {"node1]", "expected \",\" at character 6, got \"]\""},
                        {"node1 node2", "expected \",\" at character 6, got \" \""},
                        {"node1,b[2", "expected \"]\" at character 10"},
                        {"(null)", "expected a host at character 1, got \"(\""}})
    try {
      std::string host = FirstSlurmHost(c.list);
      ADD_FAILURE() << "\"" << c.list << "\" gave \"" << host << "\"";
    } catch (const Error& e) {
      std::string text = e.what();
      EXPECT_NE(text.find(c.why), std::string::npos) << text;
      EXPECT_NE(text.find("\"" + std::string(c.list) + "\""), std::string::npos) << text;
    }
}

TEST(Slurm, StepsThatFollowEachOtherHavePortsOfTheirOwn) {
  std::set<int> ports;
  for (int64_t job = 4'000'000; job < 4'000'020; job++)
    for (int64_t step = 0; step < 5; step++) {
      int port = SlurmPort(job, step);
      EXPECT_TRUE(port >= 20000 && port < 30000) << port;
      ports.insert(port);
    }
  EXPECT_EQ(ports.size(), 100u);
  int extreme = SlurmPort(int64_t{1} << 40, int64_t{1} << 40);
  EXPECT_TRUE(extreme >= 20000 && extreme < 30000) << extreme;
}

}  // namespace
}  // namespace weft
