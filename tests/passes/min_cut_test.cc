// A minimal cut costs as much as the cheapest of all cuts.
#include "weft/core/passes/min_cut.h"

#include <gtest/gtest.h>

#include <random>

namespace weft {
namespace {

struct Edge {
  int from, to;
  int64_t capacity;
};

int64_t CostOf(const std::vector<Edge>& edges, const std::vector<bool>& with_source) {
  int64_t cost = 0;
  for (const Edge& e : edges)
    if (with_source[size_t(e.from)] && !with_source[size_t(e.to)]) cost += e.capacity;
  return cost;
}

TEST(MinCut, IsTheCheapestOfAllCuts) {
  std::mt19937 random(1);
  auto below = [&](int n) { return int(random() % unsigned(n)); };
  for (int round = 0; round < 500; round++) {
    int nodes = 3 + below(7);
    std::vector<Edge> edges;
    for (int e = below(4 * nodes); e >= 0; e--) {
      int from = below(nodes), to = below(nodes);
      bool uncuttable = below(6) == 0 && !(from == 0 && to == 1);  // source and sink can always be separated
      if (from != to && to != 0 && from != 1) edges.push_back({from, to, uncuttable ? 1'000'000 : below(20)});
    }
    FlowGraph graph(nodes);
    for (const Edge& e : edges) graph.Add(e.from, e.to, e.capacity);
    std::vector<bool> cut = graph.Cut(0, 1);
    ASSERT_TRUE(cut[0]);
    ASSERT_FALSE(cut[1]);
    int64_t cheapest = INT64_MAX;
    for (int sides = 0; sides < 1 << (nodes - 2); sides++) {
      std::vector<bool> other{true, false};
      for (int i = 2; i < nodes; i++) other.push_back(sides >> (i - 2) & 1);
      cheapest = std::min(cheapest, CostOf(edges, other));
    }
    EXPECT_EQ(CostOf(edges, cut), cheapest) << "round " << round;
  }
}

}  // namespace
}  // namespace weft
