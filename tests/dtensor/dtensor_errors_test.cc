// The messages of DTensor's errors: which call failed and where, what was expected, what was given, and what to do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "dtensor/dtensor_testing.h"
#include "parallel/testing.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/parallel/dtensor/factories.h"

namespace weft {
namespace {

using test::OnBareMesh;
using test::OnMesh;
using test::Rank;

// Returns the message of an error, with N for the line number.
std::string TextOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    // Written without std::regex: ranks are threads, and libstdc++ has a data race on a table when threads construct
    // one.
    std::string text;
    for (char c : std::string(e.what())) {
      bool digit = c >= '0' && c <= '9';
      if (digit && text.ends_with("_test.cc:N")) continue;
      text.push_back(digit && text.ends_with("_test.cc:") ? 'N' : c);
    }
    return text;
  }
  return "no error";
}

TEST(DTensorErrors, NameWhatWasExpectedOfPlacements) {
  OnMesh({2, 2}, [](Rank rank) {
    auto zeros = [&](const Placements& p) { return TextOf([&] { Zeros({4, 6}, rank.mesh, p); }); };
    EXPECT_EQ(zeros({Shard(0)}),
              "Zeros at dtensor_errors_test.cc:N: expected 2 placements, one per axis of the mesh x=2 x y=2, got 1 in "
              "(S(0))");
    EXPECT_EQ(zeros({Replicate(), Shard(2)}),
              "Zeros at dtensor_errors_test.cc:N: S(2) on axis \"y\" names no dim of [4, 6]; expected one in [-2, 2)");
    EXPECT_EQ(zeros({Replicate(), Keep()}),
              "Zeros at dtensor_errors_test.cc:N: Keep() in (R, keep) has nothing to keep; only Redistribute takes it");
    EXPECT_EQ(zeros({Partial(), Partial(ReduceOp::kMax)}),
              "Zeros at dtensor_errors_test.cc:N: P(sum) on axis \"x\" and P(max) on axis \"y\" do not mix; expected "
              "one kind "
              "of Partial");
    EXPECT_EQ(zeros({Shard(0, 1), Shard(0, 1)}),
              "Zeros at dtensor_errors_test.cc:N: expected each of the orders 0 (major) to 1 at most once on "
              "dim 0, got (S(0)#1, S(0)#1); correct or leave out the orders");
    DTensor sum = Ones({4, 6}, rank.mesh, {Replicate(), Partial()});
    EXPECT_EQ(
        TextOf([&] {
          sum.Redistribute({Replicate(), Partial(ReduceOp::kMin)});
        }),
        "Redistribute at dtensor_errors_test.cc:N: f32 [4, 6] (R, P(sum)) on x=2 x y=2 is P(sum) on axis \"y\" and "
        "cannot become P(min): "
        "two kinds of Partial never mix; go through Replicate() or Shard()");
  });
}

TEST(DTensorErrors, NameWhatWasExpectedOfTensors) {
  OnMesh({2}, [](Rank rank) {
    int r = rank.mesh.rank();
    EXPECT_EQ(
        TextOf([&] {
          DTensor::FromLocal(Tensor::Zeros(DType::kF32, {4, 3}), rank.mesh, {Shard(0)}, {5, 3});
        }),
        fmt::format("FromLocal at dtensor_errors_test.cc:N: rank {} (x={}) holds [{}, 3] of [5, 3] placed (S(0)) on "
                    "x=2, got [4, 3]; pass the "
                    "elements that the rank really holds, without padding",
                    r, r, r ? 2 : 3));
    EXPECT_EQ(TextOf([&] { DTensor::FromLocal({}, rank.mesh, {Shard(0)}, {5}); }),
              "FromLocal at dtensor_errors_test.cc:N: expected a tensor, got an empty one");
    EXPECT_EQ(TextOf([&] { Arange(4, rank.mesh, {Shard(0)}, {.dtype = DType::kI32, .requires_grad = true}); }),
              "Arange at dtensor_errors_test.cc:N: i32 cannot require a gradient; expected a floating dtype");
    EXPECT_EQ(TextOf([&] { Randn({4}, rank.mesh, {Shard(0)}, {.dtype = DType::kI64}); }),
              "Randn at dtensor_errors_test.cc:N: expected a floating dtype, got i64");
    EXPECT_EQ(TextOf([&] { DistributeTensor(Tensor::Zeros(DType::kF32, {2}), rank.mesh, {Shard(0)}, {.source = 2}); }),
              "DistributeTensor at dtensor_errors_test.cc:N: expected a source rank in [0, 2) or kOwn, got 2");
    EXPECT_EQ(
        TextOf([&] {
          Ones({4, 6}, rank.mesh, {Shard(0)}).Item();
        }),
        "dtensor_errors_test.cc:N: expected a tensor of one element, got [4, 6]; FullTensor().ToDoubles() returns "
        "all, and SumAll reduces them to one");
    EXPECT_EQ(TextOf([&] {
                Tensor::Zeros(DType::kF32, {4, 6}).Item();
              }),
              "tensor: Item() expects one element, got [4, 6]; ToDoubles() returns all");
    DTensor plain = Ones({3}, rank.mesh, {Shard(0)});
    EXPECT_EQ(
        TextOf([&] { Grad(SumAll(plain), {plain}); }),
        "Grad at dtensor_errors_test.cc:N: operand 0, f32 [3] made at dtensor_errors_test.cc:N, does not require a "
        "gradient; make it with {.requires_grad = true}");
  });
}

TEST(DTensorErrors, AnEmptyDTensorSaysSo) {
  const DTensor empty;
  EXPECT_FALSE(bool(empty));
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"shape", [&] { empty.shape(); }},
      {"dtype", [&] { empty.dtype(); }},
      {"mesh", [&] { empty.mesh(); }},
      {"placements", [&] { empty.placements(); }},
      {"requires_grad", [&] { empty.requires_grad(); }},
      {"ToLocal", [&] { empty.ToLocal(); }},
      {"Storage", [&] { empty.Storage(); }},
      {"FullTensor", [&] { empty.FullTensor(); }},
      {"Redistribute", [&] { empty.Redistribute({Replicate()}); }},
      {"Item", [&] { empty.Item(); }},
      {"Detach", [&] { empty.Detach(); }},
  };
  for (const auto& [name, call] : calls)
    EXPECT_EQ(TextOf(call),
              fmt::format("{} at dtensor_errors_test.cc:N: the DTensor is empty; assign one first", name));
  EXPECT_EQ(TextOf([&] { Exp(empty); }), "Var(DTensor): the DTensor is empty; assign one first");
}

TEST(DTensorErrors, RanksThatPassOtherShapesAreNamed) {
  EXPECT_EQ(
      TextOf([] {
        OnMesh({2}, [](Rank rank) {
          Shape shape = rank.mesh.rank() ? Shape{6, 4} : Shape{4, 6};
          DistributeTensor(Tensor::Zeros(DType::kF32, shape), rank.mesh, {Shard(0)});
        });
      }),
      "DistributeTensor at dtensor_errors_test.cc:N: expected f32 [4, 6] as on rank 0, whose values are taken, got f32 "
      "[6, 4] on rank 1 "
      "(x=1); pass one shape and dtype on every rank");
}

TEST(DTensorErrors, NameTheScopeThatIsMissingOrAnother) {
  OnBareMesh({1}, [](Rank rank) {
    EXPECT_EQ(TextOf([&] { Zeros({4}, rank.mesh, {Shard(0)}); }),
              "Zeros at dtensor_errors_test.cc:N: no EagerScope is open on this thread; write "
              "EagerScope eager(mesh) before it");
    Context other(1, 2);
    EXPECT_EQ(TextOf([&] { EagerScope scope(other, rank.mesh); }),
              "EagerScope at dtensor_errors_test.cc:N: expected the context that the mesh x=1 was "
              "made with (rank 0 of 1), got that of rank 1 of 2");
    LocalGroupFactory groups(std::make_shared<LocalWorld>(1), 0);
    DeviceMesh second(rank.context, groups, {{"a", "b"}, {1, 1}});
    EagerScope outer(rank.context, rank.mesh);
    DTensor x = Ones({3}, rank.mesh, {Shard(0)}, {.requires_grad = true}), y = DTensor::Of(Exp(Var(x)));
    std::string belongs =
        "Var(DTensor): f32 [3] (R) on x=1 made at dtensor_errors_test.cc:N belongs to another EagerScope than the ops "
        "here, "
        "which ";
    {
      EagerScope inner(rank.context, rank.mesh);
      EXPECT_EQ(ValueOf(SumAll(x)).Item(), 3);
      EXPECT_EQ(
          TextOf([&] { SumAll(y); }),
          belongs + "run on cpu:0 of x=1; use it in its own scope, or Detach() it where mesh and device are the same");
      EXPECT_EQ(
          TextOf([&] {
            DistributeTensor(x.ToLocal(), second, {Shard(0), Shard(0)});
          }),
          "DistributeTensor at dtensor_errors_test.cc:N: expected the mesh of the open EagerScope (x=1), got another "
          "mesh (a=1 x b=1); open an "
          "EagerScope of that one");
    }
    TraceBuilder trace;
    BuilderScope tracing(trace);
    EXPECT_EQ(TextOf([&] { SumAll(x); }),
              belongs +
                  "are traced; use it in its own scope, pass it to the traced function as an argument, or make it an "
                  "entry of its State");
    Var traced = Leaf("x", DType::kF32, {2});
    EXPECT_EQ(TextOf([&] { DTensor::Of(traced); }),
              "DTensor::Of at dtensor_errors_test.cc:N: f32 [2] made at dtensor_errors_test.cc:N is traced and has no "
              "storage; expected a result of ops under an EagerScope");
  });
}

TEST(DefaultDevice, FactoriesTakeItAndRefuseAnotherThanTheScopes) {
  OnMesh({2}, [](Rank rank) {
    DefaultDeviceScope cpu({DeviceKind::kCpu, 0});
    EXPECT_EQ(Ones({3}, rank.mesh, {Shard(0)}).ToLocal().device(), (Device{DeviceKind::kCpu, 0}));
    {
      DefaultDeviceScope cuda({DeviceKind::kCuda, 1});
      const std::function<DTensor(DeviceMesh&, const Placements&)> makes[] = {
          [](auto& m, auto& p) { return Zeros({3}, m, p); }, [](auto& m, auto& p) { return Empty({3}, m, p); },
          [](auto& m, auto& p) { return Randn({3}, m, p); }, [](auto& m, auto& p) { return Arange(3, m, p); }};
      for (const auto& make : makes) {
        std::string text = TextOf([&] { make(rank.mesh, {Shard(0)}); });
        EXPECT_EQ(
            text.substr(text.find(':')),
            ":N: the default device is cuda:1, and the open EagerScope makes tensors on cpu:0; open an EagerScope "
            "in the DefaultDeviceScope, or leave that");
      }
      EXPECT_EQ(
          TextOf([&] { EagerScope scope(rank.context, rank.mesh); }),
          fmt::format("EagerScope at dtensor_errors_test.cc:N: the default device is cuda:1, and rank {} does not "
                      "have it; open a DefaultDeviceScope of context.device(kind).device()",
                      rank.context.rank()));
      // DistributeTensor keeps the device of its tensor, whatever the default device is.
      EXPECT_EQ(DistributeTensor(test::Draw({3}, 1), rank.mesh, {Shard(0)}).FullTensor().device().kind,
                DeviceKind::kCpu);
    }
    EXPECT_EQ(Ones({3}, rank.mesh, {Shard(0)}).FullTensor().num_elements(), 3);
  });
}

}  // namespace
}  // namespace weft
