// Computes the logits of a model with weights in Hugging Face's layout. A script compares them with those of
// transformers.
//
//   logits CONFIG OUT [key=value...]    OUT: f32 [2, context, vocab]; token (b, t) is (7919 b + 104729 t + 13) % vocab.
//                                       Runs on the config's mesh, whose ranks are threads.
//   logits --neutral FAMILY             prints the keys of config.json that change no logit
#include <cstdio>
#include <fstream>

#include "weft/core/compile/eager.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/config/model_of.h"
#include "weft/train/huggingface/hf_keys.h"
#include "weft/train/huggingface/initial_weights.h"

namespace weft {
namespace {

constexpr int64_t kRows = 2;

Tensor TokensOf(const ModelConfig& m) {
  std::vector<double> tokens;
  for (int64_t b = 0; b < kRows; b++)
    for (int64_t t = 0; t < m.context; t++) tokens.push_back(double((7919 * b + 104729 * t + 13) % m.vocab));
  return Tensor::FromDoubles(tokens, DType::kI32, {kRows, m.context});  // [B, T]
}

Tensor LogitsOf(const Config& config, Context& context, GroupFactory& groups) {
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  DeviceMesh mesh(context, groups, MeshOf(config));
  StepOptions options = StepOptionsOf(config);
  options.kernels = &context.kernels(DeviceKind::kCpu);
  Runtime runtime = RuntimeOf(context, mesh);
  TrainingStep step(ModelOf(config), options);
  State state(mesh.shape(), mesh.coords());
  step.AddEntries(state);
  absl::StatusOr<InitialWeights> weights = InitialWeights::Open(config);
  if (!weights.ok()) Fail(std::string(weights.status().message()));
  weights->Load(state, step.sharded(), runtime);
  EagerBuilder eager(runtime, state.binder());
  BuilderScope builder(eager);
  ModelScope scope(options.model);
  Sharding replicated(mesh.shape().num_axes());
  Var tokens = eager.FromLocal(TokensOf(config.model), {kRows, config.model.context}, replicated);  // [B, T]
  return eager.ToLocal(step.model()(tokens), replicated);                                           // [B, T, V]
}

absl::Status Run(const std::string& path, const std::string& out, const std::vector<std::string>& words) {
  absl::StatusOr<Config> config = LoadConfig(path, words);
  if (!config.ok()) return config.status();
  int ranks = config->mesh.num_fills() ? 1 : int(config->mesh.ranks());
  if (absl::Status s = Resolve(*config, ranks); !s.ok()) return s;
  std::ofstream file(out, std::ios::binary);
  RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
    Tensor logits = LogitsOf(*config, context, groups);  // [B, T, V]
    if (context.rank() == 0) file.write(logits.as<const char>(), std::streamsize(logits.bytes()));
  });
  return file.good() ? absl::OkStatus() : absl::UnavailableError(out + ": cannot be written");
}

void PrintNeutral(const char* family) {
  const HfFamily& table = *FindHfFamily(family);
  for (std::span<const HfKey> keys : {HfGenericKeys(), table.keys})
    for (const HfKey& row : keys)
      if (!row.taken && FindHfKey(row.key, table) == &row) std::puts(row.key);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: logits CONFIG OUT [key=value...] | --neutral FAMILY\n"), 2;
  if (argv[1] == std::string("--neutral")) return weft::PrintNeutral(argv[2]), 0;
  absl::Status status = weft::Run(argv[1], argv[2], {argv + 3, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
