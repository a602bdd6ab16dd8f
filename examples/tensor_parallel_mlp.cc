// A tensor-parallel MLP after Megatron-LM: the first weight is cut by columns, the second by rows, and the forward pass
// needs one all-reduce. The same lines run on one rank and on many; only the placements of the weights say how.
//
//   mpirun -np 4 build/examples/tensor_parallel_mlp
#include <fmt/format.h>

#include "weft/weft.h"

using namespace weft;

int main(int argc, char** argv) {
  Context context = Context::FromEnvironment(argc, argv);
  DeviceMesh mesh(context, {{"tp", -1}});
  DefaultDeviceScope device(context.accelerator());  // a GPU if every rank has one
  constexpr int64_t B = 32, C = 16, F = 64;

  State state(mesh, {.seed = 1});
  state.Add("up", DType::kF32, {C, F}, Sharding({Shard(1)}), /*saved=*/true);
  state.Add("down", DType::kF32, {F, C}, Sharding({Shard(0)}), /*saved=*/true);
  auto init = Compile(
      [&](Var zero) {
        state.Write("up", RandomNormal(DType::kF32, {C, F}) * 0.2);
        state.Write("down", RandomNormal(DType::kF32, {F, C}) * 0.2);
        return zero;
      },
      state, {.name = "init"});
  init(Tensor::Scalar(0, DType::kF32));

  // A step of gradient descent towards y = sin(x).
  auto train = Compile(
      [&](Var x) {
        Var up = state.Read("up"), down = state.Read("down");                           // [C, F], [F, C]
        Var hidden = Gelu(Einsum("bc,cf->bf", x, up));                                  // [B, F], sharded as up is
        Var out = Reshard(Einsum("bf,fc->bc", hidden, down), Sharding({Replicate()}));  // [B, C]: the all-reduce
        Var error = out - Sin(x);
        Var loss = SumAll(error * error) / double(B * C);
        std::vector<Var> gradients = Grad(loss, {up, down});
        state.Write("up", up - 0.5 * gradients[0]);
        state.Write("down", down - 0.5 * gradients[1]);
        return loss;
      },
      state, {.name = "train"});

  double first = 0, last = 0;
  for (int step = 0; step < 200; step++) {
    EagerScope eager(mesh);
    DTensor x = Randn({B, C}, mesh, {Replicate()}, {.seed = uint64_t(step)});
    last = train(x).Item();
    if (step == 0) first = last;
    if (mesh.rank() == 0 && step % 50 == 0) fmt::print("step {:3}: loss {:.6f}\n", step, last);
  }
  if (mesh.rank() == 0)
    fmt::print("loss {:.6f} in the first step, {:.6f} in the last, on {} ranks; \"up\" is {}\n", first, last,
               mesh.size(), ToString(state.Value("up")));
  return last < first / 2 ? 0 : 1;
}
