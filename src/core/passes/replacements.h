// Replacements: the values of a program that a pass replaces, and the new ones. All passes that rebuild a program use
// it.
#pragma once
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "weft/core/ir/graph.h"

namespace weft {

using ValueKey = std::pair<const Node*, int>;  // an output of a node
inline ValueKey KeyOf(const Var& v) { return {&v.node(), v.index()}; }

// The values of a program that others take the place of.
class Replacements {
 public:
  // Returns what takes the place of `old`: itself if nothing does.
  Var Now(const Var& old) const;
  // Returns the node, or a copy of it that reads what has taken the place of its inputs.
  std::shared_ptr<Node> WithNewInputs(const std::shared_ptr<Node>& node) const;
  void Set(const ValueKey& old, Var now) { now_[old] = std::move(now); }
  // Makes each output of `now` take the place of that output of `old`.
  void Set(const Node& old, const std::shared_ptr<Node>& now);

 private:
  absl::flat_hash_map<ValueKey, Var> now_;
};

// Gives `to` the outputs and writes of `from`: their names, and what `now` returns for their values.
template <typename Now>
void CarryNames(const Graph& from, Graph& to, const Now& now) {
  for (const NamedValue& named : from.outputs) to.outputs.push_back({named.name, now(named.value)});
  for (const NamedValue& named : from.writes) to.writes.push_back({named.name, now(named.value)});
}
inline void CarryNames(const Graph& from, Graph& to, const Replacements& replacements) {
  CarryNames(from, to, [&](const Var& v) { return replacements.Now(v); });
}

}  // namespace weft
