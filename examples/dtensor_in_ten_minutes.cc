// The code of docs/guide/dtensor.md, in its order. The page shows what each step prints on four ranks:
//   mpirun -np 4 build/examples/dtensor_in_ten_minutes
#include <fmt/format.h>

#include "weft/weft.h"

using namespace weft;

void Say(const DeviceMesh& mesh, const std::string& text) {
  if (mesh.rank() == 0) fmt::print("{}\n", text);  // the other ranks compute the same
}
// Prints shape and placements, then the elements that each rank holds, in the order of the ranks.
void ShowElements(const char* name, const DTensor& x) {
  constexpr size_t kWidth = 64;  // bytes of one rank's text
  std::string mine, all(kWidth * size_t(x.mesh().size()), '\0'), line;
  for (double value : x.ToLocal().ToDoubles()) mine += fmt::format(" {}", value);
  if (mine.empty()) mine = " none";
  mine.resize(kWidth);
  x.mesh().World().AllGather(mine.data(), all.data(), kWidth / 4, DType::kI32);
  x.mesh().ResetCounts();
  for (size_t at = 0; at < all.size(); at += kWidth) line += fmt::format("{}{}", at ? " |" : "", all.data() + at);
  Say(x.mesh(), fmt::format("{} {} {}:{}", name, ToString(x.shape()), ToString(x.placements()), line));
}
// Returns the collectives since the last call of Sent or ShowElements, each with the bytes that this rank puts in.
std::string Sent(const DTensor& x) {
  const std::vector<std::string>& axes = x.mesh().shape().names;
  std::string text;
  for (const auto& [axis, op, count] : x.mesh().Counts())
    text += fmt::format("{}{} {} B on {}", text.empty() ? "" : ", ", Name(op), count.bytes, axes[size_t(axis)]);
  x.mesh().ResetCounts();
  return text.empty() ? "nothing" : text;
}
void ShowSent(const char* name, const DTensor& x) {
  Say(x.mesh(), fmt::format("{} {} {}, sent: {}", name, ToString(x.shape()), ToString(x.placements()), Sent(x)));
}

int main(int argc, char** argv) {
  Context context = Context::FromEnvironment(argc, argv);
  DeviceMesh mesh(context, {{"dp", -1}, {"tp", context.world_size() % 2 ? 1 : 2}});
  EagerScope eager(mesh);
  Say(mesh, "step 1");  // step 1: placements
  DTensor a = Arange(4, mesh, {Replicate(), Replicate()});
  DTensor b = Arange(4, mesh, {Shard(0), Replicate()});
  const double values[] = {0, 1, 2, 3, 4, 5, 6, 7};
  DTensor c = DistributeTensor(Tensor::FromDoubles(values, DType::kF32, {2, 4}), mesh, {Shard(0), Shard(1)});
  ShowElements("a", a);
  ShowElements("b", b);
  ShowElements("c", c);
  Say(mesh, "step 2");  // step 2: sums that are not complete yet
  DTensor p = DTensor::FromLocal(Tensor::Scalar(mesh.rank() + 1, DType::kF32), mesh, {Partial(), Partial()}, {});
  ShowElements("p", p);
  ShowElements("value of p", p.Redistribute({Replicate(), Replicate()}));
  Say(mesh, "step 3");  // step 3: labels that are kept
  DTensor x = Randn({4, 6}, mesh, {Shard(0), Replicate()}, {.seed = 1});
  DTensor up = Randn({6, 8}, mesh, {Replicate(), Shard(1)}, {.requires_grad = true, .seed = 2});
  DTensor h = DTensor::Of(Relu(Einsum("bi,io->bo", x, up)));
  ShowSent("h", h);
  Say(mesh, "step 4");  // step 4: labels that are contracted
  ShowElements("sum of b", DTensor::Of(ReduceSum(b, 0)));
  DTensor down = Randn({8, 6}, mesh, {Replicate(), Shard(0)}, {.seed = 3});
  DTensor y = DTensor::Of(Einsum("bo,oi->bi", h, down));
  ShowSent("y", y);
  Say(mesh, "step 5");  // step 5: completing a sum
  ShowSent("y + y", DTensor::Of(y + y));
  ShowSent("scattered", DTensor::Of(y + y).Redistribute({Keep(), Shard(1)}));
  ShowSent("exp(y)", DTensor::Of(Exp(y)));
  Say(mesh, "step 6");  // step 6: uneven shards
  DTensor u = Arange(5, mesh, {Shard(0), Shard(0)});
  ShowElements("u", u);
  ShowElements("sum of u", DTensor::Of(SumAll(u)));
  Say(mesh, "step 7");  // step 7: two axes on one dim
  DTensor dp_major = Arange(8, mesh, {Shard(0), Shard(0)});
  DTensor tp_major = Arange(8, mesh, {Shard(0, 1), Shard(0, 0)});
  ShowElements("dp_major", dp_major);
  ShowElements("tp_major", tp_major);
  ShowSent("dp_major", dp_major.Redistribute({Replicate(), Keep()}));
  ShowSent("tp_major", tp_major.Redistribute({Replicate(), Keep()}));
  Say(mesh, "step 8");  // step 8: gradients
  Var loss = SumAll(y * y);
  ShowSent("loss", DTensor::Of(loss));
  DTensor gradient = DTensor::Of(Grad(loss, {up})[0]);
  ShowSent("gradient of up", gradient);
  Say(mesh, "step 9");  // step 9: transitions
  Say(mesh, fmt::format("{:>33}{:>26}{:>26}{:>26}", "to R", "to S(0)", "to S(1)", "to P(sum)"));
  const Placement all[] = {Replicate(), Shard(0), Shard(1), Partial()};
  for (Placement from : all) {
    std::string row = fmt::format("{:>6}:", ToString(from));
    for (Placement to : all)
      row += fmt::format("{:>26}", Sent(Ones({4, 4}, mesh, {Replicate(), from}).Redistribute({Keep(), to})));
    Say(mesh, row);
  }
  Say(mesh, "step 10");  // step 10: gradients of transitions
  DTensor stored = Randn({6, 8}, mesh, {Shard(0), Shard(1)}, {.requires_grad = true, .seed = 2});  // the values of up
  DTensor used = stored.Redistribute({Replicate(), Keep()});
  ShowSent("used", used);
  Var again = Einsum("bo,oi->bi", Relu(Einsum("bi,io->bo", x, used)), down);
  DTensor same = DTensor::Of(Grad(SumAll(again * again), {stored})[0]);
  ShowSent("same", same);
  return SumAll(Abs(gradient - same)).Item() < 1e-5 * SumAll(Abs(gradient)).Item() ? 0 : 1;
}
