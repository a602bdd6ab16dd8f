// OpRecord: everything that any transform may ask about an op. One per op, a row in its family's file.
//
// `dims` labels the dims of operands and results like an einsum; the sharding rule, checks and FLOP counts derive from
// it.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/ir/node.h"

namespace weft {

enum class Linear : uint8_t {
  kNone,
  kJoint,  // f(a1 + a2, b1 + b2) = f(a1, b1) + f(a2, b2): sums over ranks may pass
  kEach,   // linear in each operand alone
};

// Labels of one application of an op. A label that no output has is contracted: sharded, it leaves a Partial(reduce).
struct Dims {
  absl::InlinedVector<std::string, 3> in;
  absl::InlinedVector<std::string, 2> out;
  std::string blocked{};  // no axis may shard these: operands are replicated there first
  std::string whole{};    // a shard of these inlines the fallback
  Linear linear = Linear::kNone;
  ReduceOp reduce = ReduceOp::kSum;
  // Label `merged` has the extent outer * inner, outer major: split, merge, and query heads over KV heads.
  // A shard of one is a shard of the other where chunk boundaries coincide. Otherwise: exact groups replicate,
  // others keep `merged` sharded, replicate operands with `outer` and leave outputs with `outer` Partial.
  struct Group {
    char merged, outer;
    int64_t inner;
    bool exact;
  };
  absl::InlinedVector<Group, 1> groups{};
};

struct GradCall {
  const std::shared_ptr<Node>& node;
  const std::vector<Var>& dy;             // one per output; empty where no gradient arrives
  std::vector<Var>& dx;                   // one per input, to be filled; left empty: no gradient
  std::optional<DType> parameter_sums{};  // as in GradOptions
  const Var& in(int i) const { return node->inputs[size_t(i)]; }
  Var out(int i) const { return Var(node, i); }
  // Whether a sum that is the gradient of operand i is of the operand's accumulate type, not of the operand's own type.
  bool Widens(int i) const;
};

// How a sample's values are drawn, so that derivatives exist and finite differences are meaningful.
enum class Domain : uint8_t {
  kAny,
  kPositive,
  kNonzero,
  kFraction,
  kIds,
  kIdsOrIgnored,
  kBool,
  kZero,
  kOne,
  kShapeOnly
};
struct SampleInput {
  Shape shape;
  Domain domain = Domain::kAny;
  int64_t num_ids = 0;           // kIds: values in [0, num_ids)
  bool accumulate_type = false;  // the operand is of the accumulate type, not of the sample's dtype
};
struct Sample {
  std::vector<SampleInput> inputs;
  Attrs attrs{};
};

using Outputs = absl::InlinedVector<Var, 2>;

struct OpRecord {
  Op op = Op::kCount;
  void (*infer)(Node& node) = nullptr;     // fills node.outputs; throws Error for bad operands
  void (*grad)(GradCall& call) = nullptr;  // null: differentiate the fallback
  Dims (*dims)(const Node& node) = nullptr;
  Outputs (*fallback)(const Node& node) = nullptr;  // the same results from other ops
  std::vector<Sample> (*samples)(Op op) = nullptr;  // an op without samples fails the sweep
  int shape_operand = -1;                           // this input lends its dims and placement, no bytes
  bool generator = false;                           // made anew in whatever placement a consumer wants
  int products = 0;                                 // matrix products over all labels, for FLOPs
};

using OpTable = std::array<OpRecord, size_t(kNumOps)>;
const OpTable& Ops();  // the closed set
inline const OpRecord& Record(Op op) { return Ops()[size_t(op)]; }

// Used by the families' files.
std::string Letters(int n, char first = 'a');  // "abc"
void AddOutput(Node& node, DType dtype, Shape shape);
[[noreturn]] void FailAt(const Node& node, const std::string& message);  // "einsum at attention.cc:61: ..."
void CheckRank(const Node& node, int operand, int rank);
void CheckSame(const Node& node, int a, int b);                                        // equal dtype and shape
void CheckShardDims(const Node& node, const Shape& shape, const Sharding& placement);  // every sharded dim exists
double ProductFlops(const Node& node);  // 2 * products * all labels' extents, of global shapes

void RegisterElementwise(OpTable&);
void RegisterLeaf(OpTable&);
void RegisterEinsum(OpTable&);
void RegisterReduce(OpTable&);
void RegisterStructural(OpTable&);
void RegisterRandom(OpTable&);
void RegisterEmbedding(OpTable&);
void RegisterNorm(OpTable&);
void RegisterAttention(OpTable&);
void RegisterLoss(OpTable&);
void RegisterOptimizer(OpTable&);
void RegisterFused(OpTable&);
void RegisterCollective(OpTable&);

}  // namespace weft
