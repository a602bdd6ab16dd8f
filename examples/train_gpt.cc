// A GPT trained from C++, without YAML: data and tensor parallel on as many ranks as there are, with FSDP. It learns to
// continue a text of its own by bytes.
//
//   mpirun -np 4 build/examples/train_gpt
#include <fmt/format.h>

#include "weft/weft.h"

using namespace weft;

constexpr int64_t kBatch = 8, kContext = 32;

std::string Text() {
  std::string text;
  for (int i = 0; i < 200; i++) text += fmt::format("{} times {} is {}. ", i % 13, i % 7, (i % 13) * (i % 7));
  return text;
}

// Sequences of the text and, for each byte, the next one: [kBatch, kContext] each.
std::pair<Tensor, Tensor> Batch(const std::string& text, int step) {
  std::vector<double> tokens, targets;
  for (int64_t row = 0; row < kBatch; row++) {
    size_t at = size_t(step * kBatch + row) * 37 % (text.size() - kContext - 1);
    for (size_t t = 0; t < size_t(kContext); t++) {
      tokens.push_back(double(uint8_t(text[at + t])));
      targets.push_back(double(uint8_t(text[at + t + 1])));
    }
  }
  return {Tensor::FromDoubles(tokens, DType::kI32, {kBatch, kContext}),
          Tensor::FromDoubles(targets, DType::kI32, {kBatch, kContext})};
}

int main(int argc, char** argv) {
  Context context = Context::FromEnvironment(argc, argv);
  DeviceMesh mesh(context, {{"dp", -1}, {"tp", context.world_size() % 2 ? 1 : 2}});
  DefaultDeviceScope device(context.accelerator());

  std::unique_ptr<Model> model = MakeModel(Family("gpt2").configure(
      {.layers = 2, .heads = 4, .kv_heads = 4, .dim = 64, .ffn = 256, .vocab = 256, .context = kContext}));
  State state = Init(
      *model, AdamW(1e-3), mesh,
      {.plan = MegatronPlan({.heads = 4, .kv_heads = 4}, mesh.shape()), .fsdp = Fsdp::kFull, .clip = 1, .seed = 7});
  auto step = Compile(
      [&](Var tokens, Var targets) {
        Loss loss = model->LossOf(tokens, targets);
        return state.optimizer().Step(loss, Grad(loss, model->Parameters()));
      },
      state, {.name = "train"});

  std::string text = Text();
  double first = 0, last = 0;
  for (int i = 0; i < 60; i++) {
    EagerScope eager(mesh);
    auto [tokens, targets] = Batch(text, i);
    Placements batch{Shard(0), Replicate()};  // rows over dp
    auto [loss, norm] = step(DistributeTensor(tokens, mesh, batch), DistributeTensor(targets, mesh, batch));
    last = loss.Item();
    if (i == 0) first = last;
    if (mesh.rank() == 0 && i % 20 == 0) fmt::print("step {:2}: loss {:.4f}, norm {:.3f}\n", i, last, norm.Item());
  }
  if (mesh.rank() == 0)
    fmt::print("loss {:.4f} in the first step, {:.4f} in the last, on {}\n", first, last, ToString(mesh.shape()));
  return last < first / 2 ? 0 : 1;
}
