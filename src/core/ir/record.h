// OpRecord: everything that a transform may ask about an op. There is one per op, in the source file of its family.
//
// `dims` labels the dims of operands and results like an einsum. The sharding rule, shape checks and FLOP counts derive
// from it.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/ir/node.h"

namespace weft {

enum class Linear : uint8_t {
  kNone,
  kJoint,  // f(a1 + a2, b1 + b2) = f(a1, b1) + f(a2, b2): a sum over ranks may pass through
  kEach,   // linear in each operand separately
};

// Labels of one application of an op. A label that no output has is contracted. If it is sharded, the outputs become
// Partial(reduce).
struct Dims {
  absl::InlinedVector<std::string, 3> in;
  absl::InlinedVector<std::string, 2> out;
  std::string blocked{};    // no axis may shard these; operands are replicated there first
  std::string whole{};      // if one of these is sharded, the fallback is inlined
  std::string positions{};  // an element depends on where in these dims it is, besides the operands there
  Linear linear = Linear::kNone;
  ReduceOp reduce = ReduceOp::kSum;
  // Label `merged` has the extent outer * inner, with `outer` major. Split, Merge, and query heads over KV heads use
  // groups. Where chunk boundaries coincide, a shard of `merged` is a shard of `outer`. Where they do not:
  // - an exact group is replicated;
  // - any other group keeps `merged` sharded, replicates operands with `outer` and leaves outputs with `outer` Partial.
  struct Group {
    char merged, outer;
    int64_t inner;
    bool exact;
  };
  absl::InlinedVector<Group, 1> groups{};
  // For an op whose products contract over different labels, as attention's: the labels, and the number of products
  // over each. Empty: every product is over all labels.
  struct ProductsOf {
    char label;
    int count;
  };
  absl::InlinedVector<ProductsOf, 1> products_of{};
};

struct GradCall {
  const std::shared_ptr<Node>& node;
  const std::vector<Var>& dy;             // one per output; empty if no gradient arrives
  std::vector<Var>& dx;                   // one per input, to be filled; left empty: no gradient
  std::optional<DType> parameter_sums{};  // see GradOptions
  const Var& in(int i) const { return node->inputs[size_t(i)]; }
  Var out(int i) const { return Var(node, i); }
  // Whether the gradient of operand i, if it is a sum, has the operand's accumulate type instead of the operand's own.
  bool Widens(int i) const;
};

// How the values of a sample are drawn, so that derivatives exist and finite differences are meaningful.
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
  bool accumulate_type = false;  // the operand has the accumulate type instead of the sample's dtype
};
struct Sample {
  std::vector<SampleInput> inputs;
  Attrs attrs{};
};

using Outputs = absl::InlinedVector<Var, 2>;

// For an op whose composition may be formed for a block of rows at a time: rows of the dims labelled `label`.
// Derivatives that come from the composition then take the memory of one block.
struct BlockRule {
  char label;
  int64_t rows;                                         // of a block
  Attrs (*attrs)(const Node& node, int64_t first_row);  // attributes of the op on the block that begins there
};

// The integers that an operand has in a run: from `least` to `most`.
struct IntegerRange {
  int64_t least = 0, most = 0;
};

struct OpRecord {
  Op op = Op::kCount;
  void (*infer)(Node& node) = nullptr;     // fills node.outputs; throws Error for bad operands
  void (*grad)(GradCall& call) = nullptr;  // null: the fallback is differentiated
  Dims (*dims)(const Node& node) = nullptr;
  Outputs (*fallback)(const Node& node) = nullptr;  // computes the same results with other ops
  std::vector<Sample> (*samples)(Op op) = nullptr;  // the op sweep of the tests fails for an op without samples
  int shape_operand = -1;                           // of this input only dims and placement are read, no data
  bool generator = false;                           // created in the placement that each consumer wants
  const BlockRule* blocks = nullptr;                // null: the composition is formed at once
  int products = 0;                                 // number of matrix products over all labels, for FLOPs
  // The integers of an operand, for kernels that are timed on operands of their own. Null: zeros.
  IntegerRange (*integers)(const Node& node, int operand) = nullptr;
  bool reads_part = false;   // it reads no more of operand 0 than it writes
  int replaces = -1;         // this operand replaces a part of operand 0, whose other elements stay; -1: none does
  bool accumulates = false;  // it may add its products to an operand
  bool alias = false;        // output 0 is the memory of operand 0, with the same elements in the same order
  // More that kernels of the op can do. The pass Fuse makes use of it on devices whose kernels can.
  bool writes_cast = false;  // an update: write output 0 in another dtype too, with attribute `dtype`, as last output
  bool early_operands = false;    // read operands that nobody writes before the previous kernel ends; see `parameter`
  Op with_residual = Op::kCount;  // this op with one more operand, which is added to output 0; kCount: there is none
  // The gradient of an activation: this op with the einsum that computes the operand `dy`. Its operands are those of
  // the einsum, and then the others of this op. kCount: there is none.
  Op with_product = Op::kCount;
  int dy = -1;
  // Whether Chunk may compute it in parts: its values along a label that it neither contracts nor blocks, and whose
  // positions it does not read, depend on the operands there only. Losses are not worth the copies.
  bool by_rows = false;
};

using OpTable = std::array<OpRecord, size_t(kNumOps)>;
const OpTable& Ops();  // the records of all ops
inline const OpRecord& Record(Op op) { return Ops()[size_t(op)]; }

// Helpers for the families' source files.
std::string Letters(int n, char first = 'a');  // "abc"
void AddOutput(Node& node, DType dtype, Shape shape);
[[noreturn]] void FailAt(const Node& node, const std::string& message);  // throws "einsum at attention.cc:61: ..."
void CheckRank(const Node& node, int operand, int rank);
void CheckSame(const Node& node, int a, int b);                                        // dtype and shape must be equal
void CheckShardDims(const Node& node, const Shape& shape, const Sharding& placement);  // every sharded dim must exist
double ProductFlops(const Node& node);  // for global shapes; see product_flops.h

void RegisterElementwise(OpTable&);
void RegisterLeaf(OpTable&);
void RegisterEinsum(OpTable&);
void RegisterReduce(OpTable&);
void RegisterStructural(OpTable&);
void RegisterRandom(OpTable&);
void RegisterEmbedding(OpTable&);
void RegisterIndexing(OpTable&);
void RegisterSort(OpTable&);
void RegisterNorm(OpTable&);
void RegisterAttention(OpTable&);
void RegisterSdpa(OpTable&);  // called by RegisterAttention
void RegisterLoss(OpTable&);
void RegisterOptimizer(OpTable&);
void RegisterFused(OpTable&);
void RegisterCollective(OpTable&);

}  // namespace weft
