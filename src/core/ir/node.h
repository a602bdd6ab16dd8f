// Node and Var: the vocabulary of programs. A Node is one application of an op; a Var is a handle to one of its
// outputs.
//
// Ops take and return Vars. The current Builder decides whether the same code is traced into a Graph or runs eagerly.
// Nodes are immutable once built, so graphs share them.
#pragma once
#include <concepts>
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
struct EagerValue;  // what the eager builder stores: the local tensor and its placement

// A handle to output `index` of a node. Cheap to copy; empty by default.
class Var {
 public:
  Var() = default;
  Var(std::shared_ptr<Node> node, int index) : node_(std::move(node)), index_(index) {}
  bool defined() const { return node_ != nullptr; }
  // The value of a scalar, for a branch: `if (loss > best)`. Eager programs only: throws Error, with the line that made
  // the value, while a function is traced, because no value is known then (Select chooses by a value there).
  explicit operator bool() const;
  // The value of a tensor of one element, on every rank. The same holds of it.
  double Item(Loc loc = Loc::current()) const;

  // Throws Error if the Var is empty, as do the functions below that read the node.
  Node& node() const {
    if (!node_) [[unlikely]]
      FailEmpty();
    return *node_;
  }
  const std::shared_ptr<Node>& node_ptr() const { return node_; }
  int index() const { return index_; }
  DType dtype() const;
  const Shape& shape() const;  // global extents; in a local graph those of the chunk
  int rank() const { return int(shape().size()); }
  int64_t dim(int i) const;  // extent of dim i; a negative i counts from the end
  bool operator==(const Var& o) const { return node_ == o.node_ && index_ == o.index_; }

 private:
  [[noreturn]] static void FailEmpty();  // not inline, so a check costs its caller only one branch

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
  int64_t id = 0;  // increases in the order of building; Partition numbers local nodes by position
  Phase phase = Phase::kForward;
  bool parameter_chain = false;                     // computed only from parameters and generators
  bool requires_grad = false;                       // eager: the node depends on a value that requires a gradient
  std::shared_ptr<const std::string> scope;         // the module path
  Loc loc;                                          // the user's line
  std::vector<std::shared_ptr<EagerValue>> values;  // eager only, one per output

  ~Node();  // releases long chains of inputs without recursion
};

inline DType Var::dtype() const { return node().outputs[size_t(index_)].dtype; }
inline const Shape& Var::shape() const { return node().outputs[size_t(index_)].shape; }

// A Var with the source line that wrote it: the parameter type of ops, because operators cannot have default
// arguments. Any type that converts to Var, such as DTensor, converts to it.
struct VarAt {
  Var var;
  Loc loc;
  template <class T>
  requires std::convertible_to<T, Var> VarAt(T&& v, Loc l = Loc::current()) : var(std::forward<T>(v)), loc(l) {}
  // A constant with the same elements on every rank. Throws Error while a function is traced, which would keep the
  // elements of one call for all later ones.
  VarAt(const Tensor& tensor, Loc l = Loc::current());
};

}  // namespace weft
