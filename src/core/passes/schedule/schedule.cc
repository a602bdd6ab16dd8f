#include "weft/core/passes/schedule/schedule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/verify.h"
#include "weft/core/passes/schedule/gathers.h"
#include "weft/core/passes/schedule/order.h"
#include "weft/core/passes/schedule/reductions.h"
#include "weft/core/passes/schedule/sums.h"

namespace weft {
namespace {

LocalProgram Scheduled(const LocalProgram& program, Moved moved) {
  const Graph& graph = program.graph;
  if (std::ranges::none_of(graph.nodes, [](const auto& node) { return IsCollective(node->op); })) return program;
  MoveFinder finder(graph, moved);
  std::vector<Move> gathers = finder.Gathers(), reductions = finder.Reductions();
  if (gathers.empty() && reductions.empty()) return program;
  absl::flat_hash_set<int> moves;
  for (const std::vector<Move>* list : {&gathers, &reductions})
    for (const Move& move : *list) moves.insert(move.node);
  Order order(graph, std::move(moves));
  PlaceGathers(std::move(gathers), order);
  PlaceReductions(reductions, finder, order);
  PlaceSums(finder, order);
  return {order.Ordered(), program.mesh, program.inlined};
}

}  // namespace

LocalProgram Schedule(const LocalProgram& program, Moved moved) {
  LocalProgram scheduled = Scheduled(program, moved);
  if (VerifiesPasses()) VerifyLocal(scheduled.graph, scheduled.mesh);
  return scheduled;
}

}  // namespace weft
