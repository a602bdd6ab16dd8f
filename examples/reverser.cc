// PyTorch's transformer layers: an encoder and a decoder that learn to write a row of tokens backwards, over data and
// tensor parallel ranks. The rows are of 3 to 6 tokens, so that the sources have padding, which the encoder leaves out.
//
//   mpirun -np 4 build/examples/reverser reverser.safetensors   # writes the weights as PyTorch reads them
#include <fmt/format.h>

#include "weft/train/huggingface/torch_state.h"
#include "weft/weft.h"

using namespace weft;

constexpr int64_t kKinds = 10, kBegin = kKinds, kLength = 6, kWidth = 32, kRows = 32, kGroups = 8, kNoTarget = -100;

struct Reverser : Module {
  nn::Embedding tokens{this, "tokens", kKinds + 1, kWidth, 0.5}, places{this, "places", kLength, kWidth, 0.5};
  nn::Transformer transformer{
      this, "transformer", {.d_model = kWidth, .nhead = 4, .dim_feedforward = 64, .dropout = 0}, 1, 1};
  nn::Linear head{this, "head", "btc,vc->btv", {kKinds, kWidth}, {}, {ParameterInit::kNormal, 0.1}};

  Var Embed(Var ids) { return tokens(ids) + places(Iota(1, DType::kI32, ids.shape())); }  // [B, T, C]
  // Sources and targets are [B, T]. `padding` is true where a source has no token, and `places` [G, N] has the others.
  Loss LossOf(Var source, Var padding, Var places, Var before, Var target) {
    nn::AttentionMasks of_sources{.key_padding_mask = IgnoreMask(padding)};
    Var y = transformer(Embed(source), Embed(before), nn::Packing(places, kRows, kLength),
                        {.tgt = {.is_causal = true}, .memory = of_sources});  // [B, T, C]
    return LossOfLogits(head(y), target, {.ignore_index = kNoTarget});
  }
};

int main(int argc, char** argv) {
  Context context = Context::FromEnvironment(argc, argv);
  DeviceMesh mesh(context, {{"dp", -1}, {"tp", context.world_size() % 2 ? 1 : 2}});
  DefaultDeviceScope device(context.accelerator());
  Reverser model;
  State state = Init(model, AdamW(1e-2), mesh,
                     {.plan = TransformerPlan({.heads = 4, .kv_heads = 4}, mesh.shape()), .clip = 1, .seed = 3});
  auto step = Compile(
      [&](Var source, Var padding, Var places, Var before, Var target) {
        Loss loss = model.LossOf(source, padding, places, before, target);
        return state.optimizer().Step(loss, Grad(loss, model.Parameters())).first;
      },
      state);

  std::vector<double> source, padding, before, target;
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < kRows; row++) {
    int64_t length = lengths.emplace_back(3 + row % (kLength - 2));
    auto token = [&](int64_t at) { return double((row * 7 + at * at * 3 + at * row) % kKinds); };
    for (int64_t t = 0; t < kLength; t++) {
      bool inside = t < length;
      source.push_back(inside ? token(t) : 0);
      padding.push_back(!inside);
      before.push_back(t == 0 ? kBegin : inside ? token(length - t) : 0);
      target.push_back(inside ? token(length - 1 - t) : kNoTarget);
    }
  }
  EagerScope eager(state.session(), Loc::current());
  Placements batch{Shard(0), Replicate()};
  auto place = [&](const std::vector<double>& values, DType dtype) {
    return DistributeTensor(Tensor::FromDoubles(values, dtype, {kRows, kLength}), mesh, batch);
  };
  DTensor places = DistributeTensor(nn::PackedPlaces(lengths, kLength, {.groups = kGroups}), mesh, batch);
  DTensor s = place(source, DType::kI32), p = place(padding, DType::kBool);
  DTensor b = place(before, DType::kI32), t = place(target, DType::kI32);
  double first = step(s, p, places, b, t).Item(), last = 0;
  for (int i = 0; i < 150; i++) last = step(s, p, places, b, t).Item();
  if (mesh.rank() == 0)
    fmt::print("loss {:.4f} in the first step, {:.4f} in the last, on {}\n", first, last, ToString(mesh.shape()));
  if (argc > 1) SaveTorchState(state, model, argv[1]);
  return last < first / 10 ? 0 : 1;
}
