// PlanValues: what a plan knows of the values of a program before it gives them bytes: which value's storage each one
// lies in, its strides, and when it is read.
#pragma once
#include <limits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/compile/plan.h"
#include "weft/core/ir/storage.h"
#include "weft/core/passes/parts.h"

namespace weft {

struct PlanValue {
  const Node* node = nullptr;
  int index = 0;                                       // of the node's results
  int step = 0;                                        // position of the node that makes it
  int root = 0;                                        // the value that owns its storage
  int first_kernel = std::numeric_limits<int>::max();  // position of the first reader but collectives
  int last_use = 0;                                    // roots only: position of the last reader
  Place place;                                         // roots only
  TensorView view;
  size_t within = 0;  // bytes from the start of the root's storage

  size_t bytes() const { return BytesOf(node->outputs[size_t(index)]); }
};

class PlanValues {
 public:
  PlanValues(const Graph& graph, const Runtime& runtime);

  int IdOf(const Var& v) const { return IdOf(v.node(), v.index()); }
  int IdOf(const Node& node, int result) const { return first_.at(&node) + result; }
  PlanValue& at(int id) { return values_[size_t(id)]; }
  const PlanValue& at(int id) const { return values_[size_t(id)]; }
  PlanValue& At(const Var& v) { return at(IdOf(v)); }
  const PlanValue& At(const Var& v) const { return at(IdOf(v)); }
  PlanValue& RootOf(const Var& v) { return at(At(v).root); }
  const std::vector<PlanValue>& all() const { return values_; }
  PlannedView ViewOf(const Var& v) const { return ViewOf(IdOf(v)); }
  PlannedView ViewOf(int id) const;

  // Whether the plan has no step for the node, as no kernel makes its results.
  bool NeedsNoStep(const Node& node) const;

 private:
  void Number();
  void FindStridedBroadcasts();
  // Whether the node's operands are written where its result is.
  bool IsJoined(const Node& node) const { return parts_.joins.contains(&node); }
  bool IsView(const Node& node) const;
  void MakePart(PlanValue& part, const PlanValue& whole, int dim, int64_t start) const;
  void JoinOperands(const PlanValue& whole);
  void MakeView(PlanValue& value);
  void FindRoots();
  void ReadBy(PlanValue& value, int i);
  void FindUses();

  const Graph& graph_;
  const Runtime& runtime_;
  Parts parts_;
  std::vector<PlanValue> values_;
  absl::flat_hash_map<const Node*, int> first_;  // the number of a node's first result
  absl::flat_hash_set<const Node*> strided_;     // broadcasts that are views
};

}  // namespace weft
