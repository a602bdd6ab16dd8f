// A tour of DTensor: every placement of a [4, 6] tensor on the mesh, and every way from one to another.
//
//   build/examples/dtensor_tour               one rank
//   mpirun -np 4 build/examples/dtensor_tour  four ranks, which hold parts of the tensor
#include <fmt/format.h>

#include "weft/weft.h"

using namespace weft;

// Rank 0 prints; the others compute the same.
template <class... T>
void Say(const DeviceMesh& mesh, fmt::format_string<T...> format, T&&... values) {
  if (mesh.rank() == 0) fmt::print(format, std::forward<T>(values)...);
}

int main(int argc, char** argv) {
  Context context = Context::FromEnvironment(argc, argv);
  DeviceMesh mesh(context, {{"x", -1}});  // all ranks along one axis
  EagerScope eager(mesh);                 // ops run as they are written

  // One seed gives one tensor, however it is placed: each rank makes its own part.
  DTensor full = Randn({4, 6}, mesh, {Replicate()}, {.seed = 7});
  const Placement placements[] = {Replicate(), Shard(0), Shard(1), Partial()};
  for (const Placement& p : placements) {
    DTensor part = full.Redistribute({p});
    Say(mesh, "{}: rank 0 holds {}\n", ToString(part), ToString(part.ToLocal().shape()));
  }

  // Any placement becomes any other with one collective or none.
  double worst = 0;
  for (const Placement& from : placements)
    for (const Placement& to : placements) {
      mesh.ResetCounts();
      DTensor moved = full.Redistribute({from}).Redistribute({to});
      std::string how;
      for (const DeviceMesh::AxisCount& c : mesh.Counts()) how += fmt::format(" {}", Name(c.op));
      Say(mesh, "{} -> {}: rank 0 holds {},{}\n", ToString(from), ToString(to), ToString(moved.ToLocal().shape()),
          how.empty() ? " nothing sent" : how);
      worst = std::max(worst, SumAll(Abs(moved - full)).Item());
    }

  // Ops follow the placements: rows of x times columns of w need no communication.
  DTensor x = Randn({8, 4}, mesh, {Shard(0)}, {.seed = 1}), w = Randn({4, 6}, mesh, {Replicate()}, {.seed = 2});
  DTensor y = DTensor::Of(Relu(Einsum("bi,io->bo", x, w)));
  Say(mesh, "relu(x w) is {}\n", ToString(y));
  // A sum over a sharded dim is Partial: each rank has a term. The value needs an all-reduce.
  DTensor sum = DTensor::Of(SumAll(y));
  Say(mesh, "its sum is {}, the value {:.4f}\n", ToString(sum), sum.Item());
  Say(mesh, "largest difference on all ways: {}\n", worst);
  return worst < 1e-5 ? 0 : 1;
}
