// Node and Var: the vocabulary of programs. A Node is one application of an op; a Var is a handle to one of its
// outputs.
//
// Ops take and give Vars; the same code is traced into a Graph or runs eagerly, as the current Builder decides.
// Nodes are immutable once built, so graphs share them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "weft/core/base/attrs.h"
#include "weft/core/base/dtype.h"
#include "weft/core/base/error.h"
#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"
#include "weft/core/base/tensor.h"
#include "weft/core/ir/op.h"

namespace weft {

struct Node;
struct EagerValue;  // what the eager builder keeps: the local tensor and its placement

// A handle to output `index` of a node. Cheap to copy; empty by default.
class Var {
 public:
  Var() = default;
  Var(std::shared_ptr<Node> node, int index) : node_(std::move(node)), index_(index) {}
  explicit operator bool() const { return node_ != nullptr; }

  Node& node() const { return *node_; }
  const std::shared_ptr<Node>& node_ptr() const { return node_; }
  int index() const { return index_; }
  DType dtype() const;
  const Shape& shape() const;  // global extents (in a local graph: the chunk's)
  int rank() const { return int(shape().size()); }
  int64_t dim(int i) const;  // extent of dim i; negative counts from the end
  bool operator==(const Var& o) const { return node_ == o.node_ && index_ == o.index_; }

 private:
  std::shared_ptr<Node> node_;
  int index_ = 0;
};

struct ValueInfo {
  DType dtype = DType::kF32;
  Shape shape;        // global extents; in a local graph the capacities
  Shape global;       // local graphs only: the global extents
  Sharding sharding;  // local graphs only
};

enum class Phase : uint8_t { kForward, kBackward, kOptimizer };
const char* Name(Phase phase);

struct Node {
  Op op = Op::kLeaf;
  Attrs attrs;
  absl::InlinedVector<Var, 3> inputs;
  absl::InlinedVector<ValueInfo, 1> outputs;
  int64_t id = 0;  // increases in the order of building; in a graph, the position
  Phase phase = Phase::kForward;
  bool parameter_chain = false;                     // computed from parameters and generators alone
  bool requires_grad = false;                       // eager: a value to differentiate reaches this node
  std::shared_ptr<const std::string> scope;         // the module path
  Loc loc;                                          // the user's line
  std::vector<std::shared_ptr<EagerValue>> values;  // eager only, one per output

  ~Node();  // releases long chains of inputs without recursion
};

inline DType Var::dtype() const { return node_->outputs[size_t(index_)].dtype; }
inline const Shape& Var::shape() const { return node_->outputs[size_t(index_)].shape; }

// A Var with the line it was written at: the parameter type of operators, which cannot have default arguments.
struct VarAt {
  Var var;
  Loc loc;
  VarAt(Var v, Loc l = Loc::current()) : var(std::move(v)), loc(l) {}
};

}  // namespace weft
