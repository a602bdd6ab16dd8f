// Reads weights that PyTorch saved, prints what the modules make of a fixed input, and writes the weights again. A
// script compares both with PyTorch.
//
//   torch_state DP TP IN OUT    The modules are those of compare_torch_state.py. The ranks of the mesh are threads.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "weft/core/ops/ops.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"
#include "weft/parallel/program/compile.h"
#include "weft/parallel/step/init.h"
#include "weft/train/huggingface/torch_state.h"

namespace weft {
namespace {

constexpr int64_t kWidth = 8, kWide = 6, kSources = 5, kTargets = 4, kBatch = 2;

struct Model : Module {
  nn::Transformer transformer{
      this, "transformer", {.d_model = kWidth, .nhead = 2, .dim_feedforward = 12, .norm_first = true}, 2, 1};
  nn::MultiHeadAttention wide{this, "wide", {.embed_dim = kWidth, .num_heads = 2, .kdim = kWide, .vdim = kWide}};

  Var operator()(Var src, Var tgt, Var memory) {
    Var y = transformer(src, tgt, {.tgt = {.is_causal = true}});  // [B, T, C]
    return wide(y, memory, memory);                               // [B, T, C]
  }
};

// Element i is the sine of i.
Tensor Waves(const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < NumElements(shape); i++) values.push_back(std::sin(double(i)));
  return Tensor::FromDoubles(values, DType::kF32, shape);
}

void RunRank(Context& context, GroupFactory& groups, const MeshShape& shape, const char* in, const char* out) {
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  DeviceMesh mesh(context, groups, shape);
  Model model;
  State state = Init(model, AdamW(1e-3), mesh, {.plan = TransformerPlan({.heads = 2, .kv_heads = 2}, shape)});
  LoadTorchState(state, model, in);
  auto fn = Compile([&](Var src, Var tgt, Var memory) { return model(src, tgt, memory); }, state,
                    {.phase = RandomPhase::kEval});
  EagerScope eager(state.session(), Loc::current());
  auto place = [&](const Shape& of) { return DistributeTensor(Waves(of), mesh, {Shard(0), Replicate()}); };
  DTensor y =
      fn(place({kBatch, kSources, kWidth}), place({kBatch, kTargets, kWidth}), place({kBatch, kSources, kWide}));
  Tensor whole = y.FullTensor();  // [B, T, C]
  SaveTorchState(state, model, out);
  if (context.rank() != 0) return;
  for (double v : whole.ToDoubles()) fmt::print("{:.9g}\n", v);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  weft::MeshShape shape{{"dp", "tp"}, {std::atoi(argv[1]), std::atoi(argv[2])}};
  try {
    weft::RunRanks(shape.num_ranks(), [&](weft::Context& context, weft::GroupFactory& groups) {
      weft::RunRank(context, groups, shape, argv[3], argv[4]);
    });
  } catch (const std::exception& error) {
    fmt::print(stderr, "torch_state: {}\n", error.what());
    return 1;
  }
  return 0;
}
