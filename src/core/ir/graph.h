// Graph: a program as a list of nodes in an order that respects data flow, with its outputs and the entries it writes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "weft/core/ir/node.h"

namespace weft {

struct NamedValue {
  std::string name;
  Var value;
};

struct Graph {
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<NamedValue> outputs;  // read back by name
  std::vector<NamedValue> writes;   // State entries, by name, that get a new value when the graph has run
};

// Throws Error unless every operand is made before it is used and every record agrees with the shapes.
void Verify(const Graph& graph);
// Returns one line per node: "%3 = einsum(%1, %2) eq=... : f32 [2, 3]  // forward layers.0.attn attention.cc:61". Lines
// for outputs and writes follow.
std::string Print(const Graph& graph);
// Returns the graph with only those nodes that outputs and writes need, in order.
Graph RemoveDead(const Graph& graph);

}  // namespace weft
