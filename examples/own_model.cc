// A model and an op of one's own, outside of Weft's tree: a mixer of tokens by running means. The model names no axis
// of the mesh; the rows of its sharding plan do.
//
//   mpirun -np 2 build/examples/own_model
#include <fmt/format.h>

#include "weft/weft.h"

using namespace weft;

// The mean of each token and those before it, [B, T, C]: written in Weft's ops, so it has a gradient, a sharding rule
// and runs on every device.
Var RunningMean(Var x, Loc loc = Loc::current()) {
  Var sums = CumSum(x, 1, loc);                                         // [B, T, C]
  Var counts = Cast(Iota(1, DType::kI32, x.shape()), x.dtype()) + 1.0;  // [B, T, C]: 1, 2, ... T
  return sums / counts;
}

struct Mixer : Layer {
  nn::Linear up{this, "up", "btc,cf->btf", {kWidth, 2 * kWidth}, {2 * kWidth}, {ParameterInit::kNormal, 0.1}};
  nn::Linear down{this, "down", "btf,fc->btc", {2 * kWidth, kWidth}, {kWidth}, {ParameterInit::kNormal, 0.1}};
  using Layer::Layer;
  static constexpr int64_t kWidth = 32;

 protected:
  Var Forward(Var x) override { return x + down(Gelu(up(RunningMean(x)))); }  // [B, T, C]
};

struct MixerModel : Module {
  nn::Embedding embed{this, "embed", 16, Mixer::kWidth, 0.1};
  Mixer first{this, "first"}, second{this, "second"};
  nn::Linear head{this, "head", "btc,vc->btv", {16, Mixer::kWidth}, {}, {ParameterInit::kNormal, 0.1}};

  Loss LossOf(Var tokens, Var targets) {
    Var losses = CrossEntropy(head(second(first(embed(tokens)))), targets, {});  // [B, T]
    return {SumAll(losses), SumAll(Full(1, losses.dtype(), losses.shape()))};
  }
};

int main(int argc, char** argv) {
  Context context = Context::FromEnvironment(argc, argv);
  DeviceMesh mesh(context, {{"tp", -1}});
  DefaultDeviceScope device(context.accelerator());
  MixerModel model;
  ShardingPlan plan({{"*.up", "weight", {{"tp", Shard(1)}}},
                     {"*.up", "bias", {{"tp", Shard(0)}}},
                     {"*.down", "weight", {{"tp", Shard(0)}}},
                     {"*.down", "product", {{"tp", Replicate()}}}});
  State state = Init(model, AdamW(1e-2), mesh, {.plan = plan, .seed = 3});
  auto step = Compile(
      [&](Var tokens, Var targets) {
        Loss loss = model.LossOf(tokens, targets);
        return state.optimizer().Step(loss, Grad(loss, model.Parameters())).first;
      },
      state);

  // The target is the parity of the tokens so far.
  std::vector<double> tokens, targets;
  for (int row = 0; row < 16; row++)
    for (int t = 0, sum = 0; t < 8; t++) {
      tokens.push_back((row * 7 + t * t * 3) % 16);
      targets.push_back((sum += int(tokens.back())) % 2);
    }
  Tensor x = Tensor::FromDoubles(tokens, DType::kI32, {16, 8}), y = Tensor::FromDoubles(targets, DType::kI32, {16, 8});
  double first = step(x, y).Item(), last = 0;
  for (int i = 0; i < 100; i++) last = step(x, y).Item();
  if (mesh.rank() == 0)
    fmt::print("loss {:.4f} in the first step, {:.4f} in the last, on {}\n", first, last, ToString(mesh.shape()));
  return last < first / 2 ? 0 : 1;
}
