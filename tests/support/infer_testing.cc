#include "support/infer_testing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/config/model_of.h"
#include "weft/train/data/data.h"
#include "weft/train/infer/evaluate_model.h"
#include "weft/train/infer/generate.h"

namespace weft::testing_ {

absl::Status InferTest::OnSource(const std::string& path, const Words& words, int ranks,
                                 const std::function<absl::Status(const Opened&)>& fn) const {
  return OnSource(path, words, ranks, fn, MeshFill::kTensor);
}

absl::Status InferTest::OnSource(const std::string& path, const Words& words, int ranks,
                                 const std::function<absl::Status(const Opened&)>& fn, MeshFill fill) const {
  std::vector<absl::Status> statuses(static_cast<size_t>(ranks));
  RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    statuses[size_t(context.rank())] = Open(path, words, context, groups, fn, fill);
  });
  for (const absl::Status& status : statuses) EXPECT_EQ(status, statuses[0]);
  return statuses[0];
}

std::string InferTest::Path(const std::string& name) const { return folder_.Path(name); }

void InferTest::On(const std::string& name, const Words& words, std::pair<int, int> mesh,
                   const std::function<void(const Opened&)>& fn) const {
  auto [dp, tp] = mesh;
  absl::Status status = OnSource(Path(name), Mesh(dp, tp) + words, dp * tp, [&](const Opened& o) {
    fn(o);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

std::unique_ptr<LoadedModel> InferTest::Made(const Opened& o, bool cache, int64_t rows) {
  StepOptions options = NextTokenOptions(o.source.config, DeviceKind::kCpu, rows);
  auto model = std::make_unique<LoadedModel>(o.source.config, options, NextTokenPrograms(options, cache), o.context,
                                             o.mesh, DeviceKind::kCpu);
  absl::Status status = model->Load(o.source);
  EXPECT_TRUE(status.ok()) << status;
  return model;
}

absl::StatusOr<std::vector<int32_t>> InferTest::Write(const std::string& path, const Words& words, int ranks,
                                                      const GenerateOptions& options, int64_t sample) const {
  std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(ranks));
  absl::Status status = OnSource(path, words, ranks, [&](const Opened& o) {
    StepOptions step = NextTokenOptions(o.source.config, DeviceKind::kCpu);
    LoadedModel model(o.source.config, step, NextTokenPrograms(step), o.context, o.mesh, DeviceKind::kCpu);
    if (absl::Status s = model.Load(o.source); !s.ok()) return s;
    auto prompt = PromptTokens(options, o.tokenizer, o.source.config.model.context);
    if (!prompt.ok()) return prompt.status();
    std::string shown;
    auto made = weft::Generate(
        model, o.tokenizer, *prompt, options, [&](std::string_view text) { shown += text; }, sample);
    if (!made.ok()) return made.status();
    EXPECT_TRUE(shown.starts_with(options.prompt));
    tokens[size_t(o.context.rank())] = *std::move(made);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  for (const auto& mine : tokens) EXPECT_EQ(mine, tokens[0]);
  return tokens[0];
}

size_t InferTest::FirstNearTie(const std::string& path, const GenerateOptions& options,
                               const std::vector<int32_t>& made) const {
  size_t tie = made.size();
  absl::Status status = OnSource(path, Mesh(1, 1), 1, [&](const Opened& o) {
    StepOptions step = NextTokenOptions(o.source.config, DeviceKind::kCpu);
    LoadedModel model(o.source.config, step, NextTokenPrograms(step), o.context, o.mesh, DeviceKind::kCpu);
    if (absl::Status s = model.Load(o.source); !s.ok()) return s;
    std::vector<int32_t> text = *PromptTokens(options, o.tokenizer, o.source.config.model.context);
    NextToken next(model);
    for (size_t i = 0; i < made.size() && tie == made.size(); i++) {
      if (IsNearTie(next.Logits(text).first(size_t(o.tokenizer.vocab())))) tie = i;
      text.push_back(made[i]);
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return tie;
}

bool InferTest::IsNearTie(std::span<const double> logits) {
  std::vector<double> sorted(logits.begin(), logits.end());
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater());
  double largest = 0;
  for (double logit : logits) largest = std::max(largest, std::abs(logit));
  return sorted[0] - sorted[1] <= 0x1p-16 * largest;
}

absl::StatusOr<EvalRecord> InferTest::Evaluate(const std::string& path, const Words& words, int ranks) const {
  EvalRecord record;
  absl::Status status = OnSource(
      path, words, ranks,
      [&](const Opened& o) {
        absl::StatusOr<Dataset> data = Dataset::Load(o.source.config, {.tokenizer = &o.tokenizer, .train = false});
        if (!data.ok()) return data.status();
        StepOptions step = StepOptionsOf(o.source.config);
        LoadedModel model(o.source.config, step, EvaluationProgram(step), o.context, o.mesh, DeviceKind::kCpu);
        if (absl::Status s = model.Load(o.source); !s.ok()) return s;
        EvalRecord mine = EvaluateModel(model, *data);
        if (o.context.rank() == 0) record = mine;
        return absl::OkStatus();
      },
      MeshFill::kData);
  if (!status.ok()) return status;
  return record;
}

absl::Status InferTest::Open(const std::string& path, const Words& words, Context& context, GroupFactory& groups,
                             const std::function<absl::Status(const Opened&)>& fn, MeshFill fill) {
  std::vector<int> all(size_t(context.world_size()));
  std::iota(all.begin(), all.end(), 0);
  std::unique_ptr<ProcessGroup> world = groups.Make("files", all, DeviceKind::kCpu);
  absl::StatusOr<ModelSource> source = OpenSource(path, words, RanksOf(*world), fill);
  if (!source.ok()) return source.status();
  absl::StatusOr<Tokenizer> tokenizer = TokenizerOf(*source);
  if (!tokenizer.ok()) return tokenizer.status();
  if (absl::Status s = ResolveVocab(source->config, tokenizer->vocab()); !s.ok()) return s;
  DeviceMesh mesh(context, groups, MeshOf(source->config));
  return fn({*source, *tokenizer, context, mesh});
}

}  // namespace weft::testing_
