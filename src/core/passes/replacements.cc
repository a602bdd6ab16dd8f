#include "weft/core/passes/replacements.h"

#include <algorithm>

namespace weft {

Var Replacements::Now(const Var& old) const {
  auto it = now_.find(KeyOf(old));
  return it == now_.end() ? old : it->second;
}

std::shared_ptr<Node> Replacements::WithNewInputs(const std::shared_ptr<Node>& node) const {
  if (std::ranges::all_of(node->inputs, [this](const Var& v) { return Now(v) == v; })) return node;
  auto copy = std::make_shared<Node>(*node);
  for (Var& in : copy->inputs) in = Now(in);
  return copy;
}

void Replacements::Set(const Node& old, const std::shared_ptr<Node>& now) {
  for (int i = 0; i < int(old.outputs.size()); i++) Set({&old, i}, Var(now, i));
}

}  // namespace weft
