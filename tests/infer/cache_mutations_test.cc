// The law of the cache finds broken rules. Each mutation changes one fact of the programs that read and write the cache
// of keys and values, or of what the host counts, as wrong code would. The logits then differ from those without a
// cache, or the collectives do.
#include <fmt/format.h>

#include <set>

#include "support/infer_testing.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ops/ops.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/nn/kv_cache.h"
#include "weft/parallel/program/program.h"
#include "weft/train/infer/loaded_model.h"
#include "weft/train/infer/next_token.h"
#include "weft/train/infer/source.h"

namespace weft {
namespace {

using namespace testing_;
using Tokens = std::vector<int32_t>;

constexpr int64_t kContext = 21, kRows = 2;

// A traced program of new tokens, to be damaged. `past` holds the number of tokens that each row has seen.
struct Traced {
  std::vector<NamedValue>& writes;
  std::vector<Node*> nodes;         // that the results and the writes depend on
  Var past, next, zeros, of_row_0;  // i64 [B]: past, past + 1, 0, and past of the first row

  void Replace(Op op, size_t operand, const Var& by) const {
    for (Node* node : nodes)
      if (node->op == op) node->inputs[operand] = by;
  }
  void Set(Op op, const Attrs::Item& item) const {
    for (Node* node : nodes)
      if (node->op == op) node->attrs.Set(item);
  }
  // Lets attention read the entry as it was before the new tokens.
  void ReadOld(size_t operand) const {
    for (Node* node : nodes)
      if (node->op == Op::kSdpa) node->inputs[operand] = node->inputs[operand].node().inputs[0];
  }
};

struct Mutation {
  const char* name;
  void (*damage)(const Traced& t) = nullptr;
  void (*miscount)(std::vector<Tokens>& cached) = nullptr;  // what the host says is in the cache, after each token
};

constexpr size_t kStart = 2, kKeys = 1, kValues = 2, kOffsets = 3;  // operands of DynamicUpdate and Sdpa
const Mutation kMutations[] = {
    {"NoEntryIsWritten", [](const Traced& t) { t.writes.clear(); }},
    {"OneEntryIsNotWritten", [](const Traced& t) { t.writes.pop_back(); }},
    {"KeysAndValuesExchangeEntries", [](const Traced& t) { std::swap(t.writes[0].name, t.writes[1].name); }},
    {"BlocksExchangeEntries", [](const Traced& t) { std::swap(t.writes[0].name, t.writes[2].name); }},
    {"WrittenOnePlaceLate", [](const Traced& t) { t.Replace(Op::kDynamicUpdate, kStart, t.next); }},
    {"WrittenToTheFirstPlace", [](const Traced& t) { t.Replace(Op::kDynamicUpdate, kStart, t.zeros); }},
    {"WrittenWhereTheFirstRowIs", [](const Traced& t) { t.Replace(Op::kDynamicUpdate, kStart, t.of_row_0); }},
    {"StaleRowsAreSeen",
     [](const Traced& t) {
       t.Set(Op::kSdpa, {"causal", 0}), t.Set(Op::kSdpa, {"left", -1});
     }},
    {"TheRowAfterTheLastIsSeen",
     [](const Traced& t) {
       t.Set(Op::kSdpa, {"causal_offset", 1});
     }},
    {"TheLastRowIsNotSeen",
     [](const Traced& t) {
       t.Set(Op::kSdpa, {"causal_offset", -1});
     }},
    {"QueriesBeginAtTheFirstKey", [](const Traced& t) { t.Replace(Op::kSdpa, kOffsets, t.zeros); }},
    {"QueriesBeginWhereTheFirstRowDoes", [](const Traced& t) { t.Replace(Op::kSdpa, kOffsets, t.of_row_0); }},
    {"RotatedFromTheFirstPosition", [](const Traced& t) { t.Replace(Op::kRope, 1, t.zeros); }},
    {"WindowOneTokenWider",
     [](const Traced& t) {
       t.Set(Op::kSdpa, {"left", 5});
     }},
    {"NewKeysAreNotSeen", [](const Traced& t) { t.ReadOld(kKeys); }},
    {"NewValuesAreNotSeen", [](const Traced& t) { t.ReadOld(kValues); }},
    {"TokensOfAnotherTextCount", nullptr,
     [](std::vector<Tokens>& cached) {
       cached[0] = {'b', 'c', 'd'};
     }},
};

// Adds a node and what it depends on.
void Collect(const Var& v, std::set<const Node*>& seen, std::vector<Node*>& nodes) {
  if (!seen.insert(&v.node()).second) return;
  for (const Var& in : v.node().inputs) Collect(in, seen, nodes);
  nodes.push_back(&v.node());
}

// Returns a program whose traced graph is damaged. The operands that a damage takes are traced before it.
ForwardProgram Damaged(ForwardProgram program, void (*damage)(const Traced& t)) {
  auto trace = [inner = program.trace, damage](Model& model, const StepOptions& o) {
    Var past = Leaf("slot.past", DType::kI64, {kRows}, BatchPlacement(o.model.mesh));
    Var zeros = Full(0, DType::kI64, {kRows}), next = past + Full(1, DType::kI64, {kRows});
    Var of_row_0 = Merge(Broadcast(Slice(past, 0, 0, 1), 1, kRows), 0);  // [B]
    std::vector<NamedValue> outputs = inner(model, o);
    std::vector<NamedValue> writes = EntryScope::Current()->TakeWrites();
    Traced traced{writes, {}, past, next, zeros, of_row_0};
    std::set<const Node*> seen;
    for (auto* list : {&outputs, &writes})
      for (const NamedValue& named : *list) Collect(named.value, seen, traced.nodes);
    damage(traced);
    for (const NamedValue& write : writes) WriteEntry(write.name, write.value);
    return outputs;
  };
  program.trace = trace;
  return program;
}

class CacheMutations : public InferTest {
 protected:
  // Keys of a window of 5 tokens, which a text soon passes, with rotary positions.
  void SetUp() override {
    InferTest::SetUp();
    const Words words{"model.family=mistral", fmt::format("model.context={}", kContext),
                      "model.kv_heads=1",     "model.window=5",
                      "optimizer.lr=3e-2",    "train.steps=20"};
    absl::Status status = Train(words + SaveTo("model"));
    ASSERT_TRUE(status.ok()) << status;
  }
  static std::unique_ptr<LoadedModel> Made(const Opened& o, bool cache, void (*damage)(const Traced& t)) {
    StepOptions options = NextTokenOptions(o.source.config, DeviceKind::kCpu, kRows);
    std::vector<ForwardProgram> programs = NextTokenPrograms(options, cache);
    if (damage)
      for (ForwardProgram& program : programs) program = Damaged(program, damage);
    auto model = std::make_unique<LoadedModel>(o.source.config, options, programs, o.context, o.mesh, DeviceKind::kCpu);
    absl::Status status = model->Load(o.source);
    EXPECT_TRUE(status.ok()) << status;
    return model;
  }
  // Writes two texts of different lengths, which begin again after a while. Returns the largest distance between the
  // logits with and without the cache, as a share of the largest logit.
  static double Distance(const Opened& o, const Mutation& mutation) {
    auto with = Made(o, true, mutation.damage), without = Made(o, false, nullptr);
    NextToken cached(*with), computed(*without);
    std::vector<Tokens> texts{{'a'}, {'x', 'y', 'z', 'x', 'y', 'z', 'x', 'y', 'z'}};
    double most = 0;
    for (int step = 0; step < 16; step++) {
      if (step == 10) texts = {{'b', 'c', 'd', 'e'}, {'n', 'e', 'w'}};
      std::vector<NextToken::Tokens> now(texts.begin(), texts.end());
      const auto &got = cached.Logits(now), &want = computed.Logits(now);
      for (size_t row = 0; row < texts.size(); row++) {
        double largest = 0, difference = 0;
        for (size_t i = 0; i < want[row].size(); i++) {
          largest = std::max(largest, std::abs(want[row][i]));
          difference = std::max(difference, std::abs(want[row][i] - got[row][i]));
        }
        most = std::max(most, std::isnan(difference) ? INFINITY : difference / largest);
        texts[row].push_back(int32_t('a' + (step * 7 + int(row) * 3) % 23));
      }
      if (mutation.miscount) mutation.miscount(BoundForward(*with).forward.cached());
    }
    return most;
  }
  void On(std::pair<int, int> mesh, const std::function<void(const Opened&)>& fn) {
    auto [dp, tp] = mesh;
    absl::Status status = OnSource(Path("model"), Mesh(dp, tp) + Words{"precision.compute=f64"}, dp * tp,
                                   [&](const Opened& o) { return fn(o), absl::OkStatus(); });
    EXPECT_TRUE(status.ok()) << status;
  }
};

TEST_F(CacheMutations, TheLawOfTheCacheCatchesThem) {
  constexpr double kLaw = 0x1p-40;  // of kv_cache_test, for f64
  for (auto mesh : {std::pair{1, 1}, {2, 2}})
    On(mesh, [&](const Opened& o) {
      bool prints = o.context.rank() == 0 && mesh.first == 1;
      EXPECT_LE(Distance(o, {"none"}), kLaw) << "the real rules fail, so a failure proves nothing";
      for (const Mutation& mutation : kMutations) {
        double distance = Distance(o, mutation);
        EXPECT_GT(distance, kLaw) << mutation.name;
        if (prints && distance > kLaw) fmt::print("shown: mutation {} caught: {:.1e}\n", mutation.name, distance);
      }
    });
}

// A cache that is sharded over its tokens gives the right logits, but moves keys for each token. The law that a cache
// adds no collectives catches it.
TEST_F(CacheMutations, TheCountOfCollectivesCatchesACacheShardedOverTokens) {
  auto count = [](const Graph& graph) {
    return std::ranges::count_if(graph.nodes, [](const auto& node) { return IsCollective(node->op); });
  };
  auto by_tokens = [](const Traced& t) {
    for (Node* node : t.nodes)
      if (node->op == Op::kLeaf && node->attrs.Text("name").starts_with(kCacheEntry))
        node->attrs.Set({"placement", Sharding{Shard(0), Shard(1)}});
  };
  On({2, 2}, [&](const Opened& o) {
    auto with = Made(o, true, nullptr), without = Made(o, false, nullptr), broken = Made(o, true, by_tokens);
    auto of = [&](LoadedModel& model) { return count(BoundForward(model).forward.traced(0).local().graph); };
    EXPECT_EQ(of(*with), of(*without));
    EXPECT_GT(of(*broken), of(*without));
    if (o.context.rank() == 0)
      fmt::print("shown: mutation CacheShardedOverTokens caught: {} collectives instead of {}\n", of(*broken),
                 of(*without));
  });
}

}  // namespace
}  // namespace weft
