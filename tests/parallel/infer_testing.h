// Trained models on in-process ranks: what they write and what they lose.
#pragma once
#include <numeric>

#include "parallel/checkpoint_testing.h"
#include "parallel/infer/evaluate_model.h"
#include "parallel/infer/generate.h"

namespace weft::testing_ {

// One rank's share of a command: the source is opened, the mesh made.
struct Opened {
  const ModelSource& source;
  const Tokenizer& tokenizer;
  Context& context;
  DeviceMesh& mesh;
};

class InferTest : public CheckpointTest {
 protected:
  // Opens `path` on so many ranks; the first rank's status.
  absl::Status OnSource(const std::string& path, const Words& words, int ranks,
                        const std::function<absl::Status(const Opened&)>& fn, MeshFill fill = MeshFill::kTensor) const {
    std::vector<absl::Status> statuses(static_cast<size_t>(ranks));
    RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
      RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
      RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      statuses[size_t(context.rank())] = Open(path, words, context, groups, fn, fill);
    });
    for (const absl::Status& status : statuses) EXPECT_EQ(status, statuses[0]);
    return statuses[0];
  }
  std::string Path(const std::string& name) const { return folder_.Path(name); }

  absl::StatusOr<std::vector<int32_t>> Write(const std::string& path, const Words& words, int ranks,
                                             const GenerateOptions& options) const {
    std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(ranks));
    absl::Status status = OnSource(path, words, ranks, [&](const Opened& o) {
      StepOptions step = NextTokenOptions(o.source.config, DeviceKind::kCpu);
      LoadedModel model(o.source.config, step, NextTokenProgram(step), o.context, o.mesh, DeviceKind::kCpu);
      if (absl::Status s = model.Load(o.source); !s.ok()) return s;
      auto prompt = PromptTokens(options, o.tokenizer, o.source.config.model.context);
      if (!prompt.ok()) return prompt.status();
      std::string shown;
      auto made = weft::Generate(model, o.tokenizer, *prompt, options, [&](std::string_view text) { shown += text; });
      if (!made.ok()) return made.status();
      EXPECT_TRUE(shown.starts_with(options.prompt));
      tokens[size_t(o.context.rank())] = *std::move(made);
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    for (const auto& mine : tokens) EXPECT_EQ(mine, tokens[0]);
    return tokens[0];
  }

  absl::StatusOr<EvalRecord> Evaluate(const std::string& path, const Words& words, int ranks) const {
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

 private:
  static absl::Status Open(const std::string& path, const Words& words, Context& context, GroupFactory& groups,
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
};

}  // namespace weft::testing_
