// MadeFor: a node that a pass makes on behalf of another one. It has that one's id, phase, module and line.
#pragma once
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include "weft/core/ir/node.h"

namespace weft {

inline std::shared_ptr<Node> MadeFor(const Node& origin, Op op, Attrs attrs, std::span<const Var> inputs,
                                     ValueInfo info) {
  auto node = std::make_shared<Node>();
  node->op = op;
  node->attrs = std::move(attrs);
  node->inputs.assign(inputs.begin(), inputs.end());
  node->outputs = {std::move(info)};
  node->id = origin.id;
  node->phase = origin.phase;
  node->scope = origin.scope;
  node->loc = origin.loc;
  return node;
}
inline std::shared_ptr<Node> MadeFor(const Node& origin, Op op, Attrs attrs, std::initializer_list<Var> inputs,
                                     ValueInfo info) {
  return MadeFor(origin, op, std::move(attrs), std::span(inputs.begin(), inputs.size()), std::move(info));
}

}  // namespace weft
