// Attention over sharded sequences, with each of its options: queries stay sharded, keys and values are gathered, masks
// and dropped probabilities are those of the whole sequence, and the gradients of keys are reduce-scattered. Forward,
// backward and twice backward equal one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attention/attention_program.h"

namespace weft::test {
namespace {

// Per mesh axis, the labels that it shards (see attention_program.h). An operand that has several is sharded by the
// first of them.
struct Layout {
  const char* name;
  std::vector<int> mesh;
  std::vector<const char*> labels;
  bool axis_1_major = false;
};
const Layout kLayouts[] = {
    {"queries and keys over 2 ranks", {2}, {"ts"}},
    {"queries and keys over 3 ranks, of which the last holds less", {3}, {"ts"}},
    {"queries over 4 ranks", {4}, {"t"}},
    {"keys over 2 ranks", {2}, {"s"}},
    {"batch and sequence", {2, 2}, {"b", "ts"}},
    {"sequence and heads", {2, 2}, {"ts", "hg"}},
    {"sequence over both axes", {2, 2}, {"ts", "ts"}},
    {"sequence over both axes, the second one major", {2, 2}, {"ts", "ts"}, true},
    {"queries over one axis, keys over the other", {2, 2}, {"t", "s"}},
};

AttentionLeaves::Place PlaceOf(const Layout& layout) {
  return [&layout](const std::string& labels) {
    std::vector<Placement> placements;
    for (size_t axis = 0; axis < layout.labels.size(); axis++) {
      size_t dim = std::string::npos;
      for (const char* l = layout.labels[axis]; *l && dim == std::string::npos; l++) dim = labels.find(*l);
      int order = layout.axis_1_major ? 1 - int(axis) : int(axis);
      placements.push_back(dim == std::string::npos ? Replicate() : Shard(int(dim), order));
    }
    return Sharding(placements);
  };
}

const AttentionSizes kSizes[] = {{2, 7, 9, 4, 2, 4, 4}, {2, 5, 5, 4, 4, 2, 3}};

TEST(SdpaSequence, EqualsOneRankWithEveryOption) {
  int programs = 0;
  for (const Layout& layout : kLayouts)
    for (const AttentionSizes& sizes : kSizes)
      for (const AttentionOption& option : AttentionOptions())
        for (AttentionPass pass : kAttentionPasses) {
          SCOPED_TRACE(fmt::format("{}, {}, {}", layout.name, option.name, Name(pass)));
          AttentionProgram program(option, sizes, pass, PlaceOf(layout));
          // Sums of at most a few dozen terms, in another order.
          ExpectSameOnRanks(program.graph(), MeshOf(layout.mesh), program.values(uint64_t(31 + programs)), 1e-12);
          programs++;
        }
  fmt::print("shown: attention over sharded sequences equals one rank, {} programs\n", programs);
}

// Returns the collectives that the labels of the operands call for.
std::map<std::string, int> ExpectedCollectives(const AttentionProgram& program, const AttentionLeaves::Place& place) {
  std::map<std::string, int> counts;
  auto count = [&](const char* op, bool once) {
    if (once) counts[op]++;
  };
  for (const auto& [name, leaf] : program.leaves()) {
    size_t keys = leaf.labels.find('s');
    bool by_keys = keys != std::string::npos && place(leaf.labels).IsSharded(int(keys));
    count("all_gather", by_keys);
    bool has_gradient = IsFloating(leaf.dtype) && name != "dout";
    count("reduce_scatter", has_gradient && by_keys);
    count("all_reduce", has_gradient && !by_keys && leaf.labels.find('t') == std::string::npos);
  }
  return counts;
}

// With queries and keys over one axis: one gather for each operand that has keys, and one reduction for each gradient
// that sums over queries. Queries and their gradients do not move.
TEST(SdpaSequence, MovesKeysAndTheirGradientsOnly) {
  const Layout& layout = kLayouts[0];
  AttentionLeaves::Place place = PlaceOf(layout);
  for (const AttentionOption& option : AttentionOptions()) {
    SCOPED_TRACE(option.name);
    AttentionProgram program(option, kSizes[0], AttentionPass::kBackward, place);
    PartitionOptions options{.mesh = MeshOf(layout.mesh), .kernels = &KernelsOf(DeviceKind::kCpu), .natural = true};
    LocalProgram local = Partition(program.graph(), options);
    for (const NamedValue& d : local.graph.outputs) {
      const ValueInfo& info = d.value.node().outputs[size_t(d.value.index())];
      EXPECT_EQ(info.sharding, place(program.leaves().at(d.name.substr(1)).labels)) << d.name;
    }
    EXPECT_EQ(Collectives(local), ExpectedCollectives(program, place)) << Print(local.graph);
    EXPECT_TRUE(local.inlined.empty());
  }
}

TEST(SdpaSequence, TheOutputOfShardedQueriesIsSharded) {
  for (const AttentionOption& option : AttentionOptions()) {
    AttentionProgram program(option, kSizes[0], AttentionPass::kForward, PlaceOf(kLayouts[0]));
    LocalProgram local = Partition(program.graph(), {.mesh = MeshOf({2}), .natural = true});
    const Var& out = local.graph.outputs[0].value;
    EXPECT_EQ(out.node().outputs[size_t(out.index())].sharding, (Sharding{Shard(1)})) << option.name;
  }
}

// More queries than a block of second derivatives has.
TEST(SdpaSequence, SecondDerivativesByBlocksEqualOneRank) {
  constexpr AttentionSizes kLong{1, 150, 140, 2, 1, 2, 2};
  for (const Layout* layout : {&kLayouts[0], &kLayouts[5]})
    for (const AttentionOption& option : AttentionOptions()) {
      SCOPED_TRACE(fmt::format("{}, {}", layout->name, option.name));
      AttentionProgram program(option, kLong, AttentionPass::kTwiceBackward, PlaceOf(*layout));
      // Sums of a few hundred terms.
      ExpectSameOnRanks(program.graph(), MeshOf(layout->mesh), program.values(7), 1e-11);
    }
}

}  // namespace
}  // namespace weft::test
