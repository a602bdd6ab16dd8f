// The same all-reduce on DTensors and tensors of the CPU, which Gloo moves, and of GPUs, which NCCL moves: the tensor
// says which.
// And a mesh taken apart: the ranks of one row, and all ranks in one line.
//
//   mpirun -np 4 build/examples/all_reduce
#include <fmt/format.h>

#include "weft/weft.h"

using namespace weft;

// Whether the all-reduce over the axis is the sum of what the ranks of the mesh hold: their number in the job, from 1.
// A DTensor whose ranks hold terms of a sum knows its mesh. A plain tensor does not, so the call names it.
bool SumsUp(const Context& context, DeviceMesh& mesh, const char* axis, DeviceKind kind) {
  double expected = 0;
  for (int rank : mesh.ranks()) expected += rank + 1;
  DefaultDeviceScope device(context.device(kind).device());
  EagerScope eager(mesh);
  Tensor mine = Tensor::Scalar(context.rank() + 1, DType::kF32).To(context.device(kind));
  DTensor terms = DTensor::FromLocal(mine, mesh, {Partial()}, {});

  Tensor sum = collectives::AllReduce(terms, axis).ToLocal();
  Tensor same = collectives::AllReduce(mine, mesh, axis);
  if (context.rank() == 0)
    fmt::print("{}: the sum over {} is {}\n", ToString(sum.device()), ToString(mesh.shape()), sum.ToDoubles()[0]);
  return sum.ToDoubles()[0] == expected && same.ToDoubles()[0] == expected;
}

int main(int argc, char** argv) {
  Context context = Context::FromEnvironment(argc, argv);
  DeviceMesh mesh(context, {{"dp", -1}, {"tp", context.world_size() % 2 ? 1 : 2}});
  DeviceMesh row = mesh["tp"], line = mesh.Flatten("all");

  bool ok = true;
  for (DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    if (!context.Has(kind)) continue;
    ok = SumsUp(context, row, "tp", kind) && ok;
    ok = SumsUp(context, line, "all", kind) && ok;
  }
  return ok ? 0 : 1;
}
