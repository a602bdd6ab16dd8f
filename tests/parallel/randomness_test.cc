// Initial parameters and dropout masks depend only on seed, path and global index, so they are bit-equal on every
// layout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>

#include "parallel/testing.h"
#include "share.h"
#include "support/training.h"
#include "weft/core/ir/builder.h"
#include "weft/parallel/program/state.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using namespace testing_;

struct Param {
  const char* family;
  Layout layout;
};
void PrintTo(const Param& p, std::ostream* out) { *out << p.family << " " << Describe(p.layout); }

Job JobOf(const Param& p) { return {Tiny(p.family)}; }

std::vector<Param> All() {
  std::vector<Param> all;
  for (const char* family : kFamilies)
    for (auto [dp, tp] : {std::pair{1, 1}, {2, 1}, {4, 1}, {3, 1}, {1, 2}, {1, 4}, {2, 2}})
      for (bool sp : {false, true})
        for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
          for (int64_t micro : {0, 1})
            if (!(sp && tp == 1) && !(fsdp != Fsdp::kNone && dp == 1))
              all.push_back({family, {dp, tp, sp, fsdp, micro}});
  return all;
}

// Returns what InitParameters leaves in the State, gathered from the ranks: the parameters, and their copies if there
// are any.
test::Values InitialParameters(const Job& job, const Layout& layout) {
  StepOptions o = OptionsOf(job, layout);
  std::map<std::string, std::vector<Tensor>> chunks;
  std::map<std::string, State::Entry> infos;
  std::mutex mutex;
  test::OnRanks(o.model.mesh, [&](const Runtime& runtime) {
    TrainingStep step(job.model, o);
    State state(o.model.mesh, runtime.coords);
    step.AddEntries(state);
    step.InitParameters(state, runtime);
    std::lock_guard lock(mutex);
    for (const Parameter* p : step.model().Parameters())
      for (const std::string& name : {p->path(), CopyName(p->path())}) {
        if (!state.Has(name)) continue;
        auto& list = chunks[name];
        list.resize(size_t(o.model.mesh.num_ranks()));
        list[size_t(runtime.context->rank())] = state.At(name).local;
        infos[name] = state.At(name);
      }
  });
  test::Values values;
  for (auto& [name, list] : chunks)
    values[name] = test::Assemble(list, infos[name].global, infos[name].sharding, o.model.mesh);
  return values;
}

// Returns, for each dropout of the model, a mask over all rows of the global batch.
std::map<std::string, std::vector<bool>> Masks(const Job& job, const Layout& layout, test::Values leaves) {
  StepOptions o = OptionsOf(job, layout);
  std::map<std::string, std::vector<bool>> masks;
  std::unique_ptr<Model> model = MakeModel(job.model);
  TraceBuilder trace({o.seed, RandomPhase::kTrain});
  BuilderScope scope(trace);
  ModelScope sharded(o.model);
  Micro(*model, o);
  std::vector<NamedValue> outputs;
  for (const auto& node : trace.nodes())
    if (node->op == Op::kDropout && node->phase == Phase::kForward)
      outputs.push_back({fmt::format("{} {}", *node->scope, outputs.size()), Var(node, 0)});
  Graph graph = RemoveDead(trace.Finish(outputs));
  trace.step = trace.first_row = {};
  leaves[entry::kStep] = Tensor::Scalar(3, DType::kI64);
  for (int micro = 0; micro < o.micro_steps; micro++) {
    leaves[entry::kFirstRow] = Tensor::Scalar(double(micro * o.rows), DType::kI64);
    std::vector<double> tokens(size_t(o.rows * o.tokens));
    for (size_t i = 0; i < tokens.size(); i++) tokens[i] = double((i * 7 + size_t(micro)) % size_t(job.model.vocab));
    leaves[entry::kTokens] = Tensor::FromDoubles(tokens, DType::kI32, {o.rows, o.tokens});
    leaves[entry::kTargets] = leaves[entry::kTokens];
    for (auto& [name, value] : test::RunRanks(graph, o.model.mesh, leaves, {.natural = true}))
      for (double v : value.ToDoubles()) masks[name].push_back(v != 0);
  }
  for (auto& [name, mask] : masks)  // the last micro-batch has extra rows
    mask.resize(mask.size() / size_t(o.rows * o.micro_steps) * size_t(job.global_batch));
  return masks;
}

class Randomness : public testing::TestWithParam<Param> {};

TEST_P(Randomness, InitialParametersAreBitEqual) {
  Job job = JobOf(GetParam());
  test::Values want = InitialParameters(job, {}), got = InitialParameters(job, GetParam().layout);
  EXPECT_GE(got.size(), want.size());
  for (auto& [name, value] : got) {
    bool copy = !want.contains(name);
    std::string parameter = copy ? name.substr(CopyName("").size()) : name;
    ASSERT_TRUE(want.contains(parameter)) << name;
    ASSERT_EQ(value.ToDoubles(), want[parameter].ToDoubles()) << name;
  }
}

TEST_P(Randomness, DropoutMasksAreBitEqual) {
  Job job = JobOf(GetParam());
  auto want = Masks(job, {}, InitialParameters(job, {}));
  auto got = Masks(job, GetParam().layout, InitialParameters(job, GetParam().layout));
  ASSERT_EQ(want.size(), size_t(2 * job.model.layers) + 1);  // one for the embedding, two per layer
  for (auto& [name, mask] : want) {
    double kept = double(std::count(mask.begin(), mask.end(), true)) / double(mask.size());
    EXPECT_NEAR(kept, 1 - job.model.dropout, 0.1) << name;
    EXPECT_EQ(got.at(name), mask) << name;
  }
}

std::string ParamName(const testing::TestParamInfo<Param>& p) {
  return fmt::format("{}_{}", p.param.family, Describe(p.param.layout));
}
INSTANTIATE_TEST_SUITE_P(All, Randomness, testing::ValuesIn(test::ShareOf(All())), ParamName);

}  // namespace
}  // namespace weft
