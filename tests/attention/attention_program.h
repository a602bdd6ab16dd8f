// Programs of attention with each of its options, forward, backward and twice backward, for laws that hold for all of
// them.
//
//   for (const AttentionOption& option : AttentionOptions()) {
//     AttentionProgram program(option, sizes, AttentionPass::kBackward);
//     Values one = RunOneRank(program.graph(), mesh, program.Values(seed));
//   }
//
// Legend: b batch, t queries, s keys, h query heads, g KV heads, d and e head sizes of keys and values.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "parallel/testing.h"
#include "weft/core/ops/ops.h"

namespace weft::test {

struct AttentionSizes {
  int64_t B = 1, T = 1, S = 1, H = 1, G = 1, D = 1, E = 1;
  DType dtype = DType::kF64;
  bool operator==(const AttentionSizes&) const = default;
};

// Makes the leaves of a program. Labels name the dims of a leaf; 1 is a dim of extent 1.
class AttentionLeaves {
 public:
  using Place = std::function<Sharding(const std::string& labels)>;
  AttentionLeaves(const AttentionSizes& sizes, Place place) : sizes_(sizes), place_(std::move(place)) {}

  Var operator()(const std::string& name, DType dtype, const std::string& labels);
  Var Floats(const std::string& name, const std::string& labels) { return (*this)(name, sizes_.dtype, labels); }
  const AttentionSizes& sizes() const { return sizes_; }

  struct Leaf {
    DType dtype;
    std::string labels;
    Shape shape;
  };
  const std::map<std::string, Leaf>& all() const { return all_; }

 private:
  AttentionSizes sizes_;
  Place place_;
  std::map<std::string, Leaf> all_;
};

struct AttentionOption {
  const char* name;
  void (*set)(SdpaOptions& options, AttentionLeaves& leaves);
};
// Every mask, bias, window and other option of Sdpa, with masks and biases of every broadcast shape, and all options
// together.
const std::vector<AttentionOption>& AttentionOptions();

enum class AttentionPass { kForward, kBackward, kTwiceBackward };
inline constexpr AttentionPass kAttentionPasses[] = {AttentionPass::kForward, AttentionPass::kBackward,
                                                     AttentionPass::kTwiceBackward};
const char* Name(AttentionPass pass);

class AttentionProgram {
 public:
  // `place` gives the placement of a leaf by its labels; null: all leaves are replicated.
  AttentionProgram(const AttentionOption& option, const AttentionSizes& sizes, AttentionPass pass,
                   AttentionLeaves::Place place = {});

  // Forward: the output "out". Backward: the gradients "dX" of each floating operand X for the cotangent "dout". Twice
  // backward: the gradients "ddX" of those for their cotangents "cX", also for dout.
  const Graph& graph() const { return graph_; }
  const std::map<std::string, AttentionLeaves::Leaf>& leaves() const { return leaves_.all(); }
  Values values(uint64_t seed) const;

 private:
  Traced Trace(const AttentionOption& option, AttentionPass pass);

  AttentionLeaves leaves_;
  Graph graph_;
};

}  // namespace weft::test
