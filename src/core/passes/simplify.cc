#include "weft/core/passes/simplify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "weft/core/base/hash.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/storage.h"
#include "weft/core/ir/verify.h"
#include "weft/core/passes/replacements.h"

namespace weft {
namespace {

// 0 and -0 are different constants, and a NaN equals itself.
bool SameBits(const Attrs::Item& a, const Attrs::Item& b) {
  const double *x = std::get_if<double>(&a.value), *y = std::get_if<double>(&b.value);
  if (!x || !y) return a == b;
  return a.name == b.name && std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
}

// Slices of one value, and constants, differ in nothing else. A placement differs only where an operand does.
void Mix(const Attrs& attrs, StableHash& hash) {
  for (const Attrs::Item& item : attrs.items()) {
    if (const auto* number = std::get_if<int64_t>(&item.value)) hash.Mix(uint64_t(*number));
    if (const auto* number = std::get_if<double>(&item.value)) hash.Mix(std::bit_cast<uint64_t>(*number));
    if (const auto* text = std::get_if<std::string>(&item.value)) hash.Mix(*text);
    if (const auto* shape = std::get_if<Shape>(&item.value))
      for (int64_t extent : *shape) hash.Mix(uint64_t(extent));
  }
}

// Hash and equality by what a node computes. Equal nodes give the same bits.
struct SameWork {
  size_t operator()(const Node* n) const {
    StableHash hash;
    hash.Mix(uint64_t(n->op));
    hash.Mix(uint64_t(n->phase));
    for (const Var& in : n->inputs) {
      hash.Mix(uint64_t(reinterpret_cast<uintptr_t>(&in.node())));
      hash.Mix(uint64_t(in.index()));
    }
    Mix(n->attrs, hash);
    return size_t(hash.value());
  }
  bool operator()(const Node* a, const Node* b) const {
    auto same = [](const ValueInfo& x, const ValueInfo& y) {
      return x.dtype == y.dtype && x.shape == y.shape && x.global == y.global && x.sharding == y.sharding;
    };
    return a->op == b->op && a->phase == b->phase && a->inputs == b->inputs &&
           std::equal(a->attrs.items().begin(), a->attrs.items().end(), b->attrs.items().begin(),
                      b->attrs.items().end(), SameBits) &&
           std::equal(a->outputs.begin(), a->outputs.end(), b->outputs.begin(), b->outputs.end(), same);
  }
};

bool IsIdentity(const Node& node) {
  const Shape* perm = node.op == Op::kPermute ? &node.attrs.Ints("perm") : nullptr;
  if (perm) return std::is_sorted(perm->begin(), perm->end());
  if (node.op == Op::kCast) return node.inputs[0].dtype() == node.outputs[0].dtype;
  return node.op == Op::kScale && node.attrs.Float("k") == 1;
}

// Returns the value of a scalar op on the constant x, computed as the op's kernel does. Returns nullopt unless both
// types are f32 or f64 and the op is a cast, scale or add_scalar.
std::optional<double> Folded(const Node& node, double x) {
  DType from = node.inputs[0].dtype(), to = node.outputs[0].dtype;
  auto plain = [](DType t) { return t == DType::kF64 || t == DType::kF32; };
  if (!plain(from) || !plain(to)) return std::nullopt;
  double value = from == DType::kF64 ? x : double(float(x));
  if (node.op == Op::kCast) return to == DType::kF64 ? value : double(float(value));
  if (node.op != Op::kScale && node.op != Op::kAddScalar) return std::nullopt;
  double k = node.attrs.Float("k");
  if (from == DType::kF64) return node.op == Op::kScale ? value * k : value + k;
  return double(node.op == Op::kScale ? float(value) * float(k) : float(value) + float(k));
}

// Whether it is better to compute a value again than to keep it while nothing reads it: it takes more memory than what
// it is computed from, or is a copy. Small values do not matter, and most are constants.
bool IsBetterRepeated(const Node& node) {
  constexpr size_t kSmall = size_t(64) << 10;  // bytes
  if (IsShapeOnly(node)) return false;
  size_t in = 0, out = 0;
  for (const Var& x : node.inputs) in += BytesOf(x.node().outputs[size_t(x.index())]);
  for (const ValueInfo& y : node.outputs) out += BytesOf(y);
  return out > kSmall && (out > in || node.op == Op::kSlice);
}

class Simplifier {
 public:
  explicit Simplifier(const LocalProgram& program) : program_(program) {
    for (auto* list : {&program.graph.outputs, &program.graph.writes})
      for (const NamedValue& named : *list) named_.insert(&named.value.node());
    FindLastUses();
  }

  LocalProgram Run() {
    for (size_t i = 0; i < program_.graph.nodes.size(); i++) Visit(program_.graph.nodes[i], int(i));
    Graph simple = std::move(result_);
    CarryNames(program_.graph, simple, now_);
    return {RemoveDead(simple), program_.mesh, program_.inlined};
  }

 private:
  // Finds the position of each node's last reader. A view is read as long as its own readers read it.
  void FindLastUses() {
    const auto& nodes = program_.graph.nodes;
    for (int i = int(nodes.size()) - 1; i >= 0; i--) {
      const Node& reader = *nodes[size_t(i)];
      int until = IsAlias(reader) ? std::max(last_use_[&reader], i) : i;
      for (const Var& in : reader.inputs) last_use_[&in.node()] = std::max(last_use_[&in.node()], until);
    }
  }

  void Visit(const std::shared_ptr<Node>& node, int position) {
    std::shared_ptr<Node> now = Folding(now_.WithNewInputs(node));
    bool read_by_name = named_.contains(node.get());  // it has storage of its own
    if (!read_by_name && IsIdentity(*now)) {
      now_.Set({node.get(), 0}, now->inputs[0]);
      return;
    }
    if (!read_by_name && now->op != Op::kLeaf && !IsCollective(now->op)) {
      Kept& kept = kept_[now.get()];
      bool is_read = kept.last_use >= position || !IsBetterRepeated(*now);
      kept.last_use = std::max(kept.last_use, last_use_[node.get()]);
      if (kept.node && is_read) return now_.Set(*node, kept.node);
      kept.node = now;
    }
    if (now != node) now_.Set(*node, now);
    result_.nodes.push_back(std::move(now));
  }

  // Returns the node as a constant if its operand is one and the op can be folded, and the node itself otherwise.
  std::shared_ptr<Node> Folding(const std::shared_ptr<Node>& node) const {
    if (node->inputs.size() != 1 || node->inputs[0].node().op != Op::kFull) return node;
    std::optional<double> value = Folded(*node, node->inputs[0].node().attrs.Float("value"));
    if (!value || std::isnan(*value)) return node;  // the bits of a NaN depend on the device
    auto constant = std::make_shared<Node>(*node);
    constant->op = Op::kFull;
    constant->attrs = node->inputs[0].node().attrs;
    constant->attrs.Set({"value", *value});
    constant->attrs.Set({"dtype", int(node->outputs[0].dtype)});
    constant->inputs.clear();
    return constant;
  }

  const LocalProgram& program_;
  absl::flat_hash_set<const Node*> named_;  // outputs and writes
  Replacements now_;
  struct Kept {
    std::shared_ptr<Node> node;
    int last_use = 0;  // of all nodes that it stands for, as a position in program_
  };
  absl::flat_hash_map<const Node*, Kept, SameWork, SameWork> kept_;
  absl::flat_hash_map<const Node*, int> last_use_;
  Graph result_;
};

}  // namespace

LocalProgram Simplify(const LocalProgram& program) {
  LocalProgram simple = Simplifier(program).Run();
  if (VerifiesPasses()) VerifyLocal(simple.graph, simple.mesh);
  return simple;
}

}  // namespace weft
