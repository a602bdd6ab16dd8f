#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>

#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"

namespace weft {
namespace {

// The law: a row maps every rank's part of a global tensor to that rank's part of the same tensor in the new sharding.
// Values are functions of the global index, so each rank checks its own box.
struct Case {
  MeshShape mesh;
  Shape global;
  DType dtype;
  Sharding from, to;
  Op op;
  Attrs attrs;
};

double ValueAt(const Shape& global, const std::vector<int64_t>& index) {
  int64_t linear = 0;
  for (size_t d = 0; d < global.size(); d++) linear = linear * global[d] + index[d];
  return double((linear * 7 + linear / 5) % 13);
}

// Calls fn(global index, storage offset) for each element of the view.
template <class Fn>
void ForEach(const TensorView& view, Fn fn) {
  if (view.NumElements() == 0) return;
  std::vector<int64_t> local(size_t(view.rank), 0), global(size_t(view.rank), 0);
  for (;;) {
    int64_t at = 0;
    for (int d = 0; d < view.rank; d++) {
      global[size_t(d)] = view.dim(d).offset + local[size_t(d)];
      at += local[size_t(d)] * view.dim(d).stride;
    }
    fn(global, at);
    int d = view.rank - 1;
    while (d >= 0 && ++local[size_t(d)] == view.dim(d).extent) local[size_t(d--)] = 0;
    if (d < 0) return;
  }
}

void Store(const TensorView& view, int64_t at, double value) {
  Dispatch(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>)
      view.as<T>()[at] = T(value);
    else
      view.as<T>()[at] = T(float(value));
  });
}

double Load(const TensorView& view, int64_t at) {
  return Dispatch(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    return double(Compute<T>(view.as<T>()[at]));
  });
}

std::string Text(const Case& c) {
  return std::string(Name(c.op)) + " " + ToString(c.global) + " " + Name(c.dtype) + " " + ToString(c.from) + " -> " +
         ToString(c.to) + " on " + ToString(c.mesh) + ", " + ToString(c.attrs);
}

// Returns what a rank holds of a value that is Partial on some axes. For a sum, coordinate 0 adds back what the other
// coordinates subtract. For a maximum or minimum, the last coordinate holds the value.
double PartialValue(const Case& c, const Coords& coords, double value) {
  for (int axis = 0; axis < c.mesh.num_axes(); axis++) {
    const Placement& p = c.from[axis];
    if (p.kind != Placement::kPartial) continue;
    int k = c.mesh.sizes[size_t(axis)], me = coords[size_t(axis)];
    if (p.reduce == ReduceOp::kSum)
      value = me == 0 ? value + (k - 1) * k / 2 : -me;
    else if (p.reduce == ReduceOp::kMax)
      value -= me == k - 1 ? 0 : me + 1;
    else
      value += me == k - 1 ? 0 : me + 1;
  }
  return value;
}

void RunCase(const Case& c, DeviceMesh& mesh, Context& context) {
  Shape in_shape = ChunkShape(c.global, c.from, c.mesh), out_shape = ChunkShape(c.global, c.to, c.mesh);
  Tensor in = Tensor::Empty(c.dtype, in_shape), out = Tensor::Empty(c.dtype, out_shape);
  std::memset(in.data(), 0x5a, in.bytes());  // padding is undefined; if a row read it, values would be wrong
  std::memset(out.data(), 0x5a, out.bytes());
  TensorView in_view = MakeView(in.data(), c.dtype, c.global, c.from, c.mesh, mesh.coords());
  TensorView out_view = MakeView(out.data(), c.dtype, c.global, c.to, c.mesh, mesh.coords());
  ForEach(in_view, [&](const auto& index, int64_t at) {
    Store(in_view, at, PartialValue(c, mesh.coords(), ValueAt(c.global, index)));
  });

  const KernelRow& row = context.kernels(DeviceKind::kCpu).Row(c.op);
  TensorView in_bare = in_view, out_bare = out_view;  // a row computes its workspace before memory exists
  in_bare.data = out_bare.data = nullptr;
  KernelCall bare{&c.attrs, {&in_bare, 1}, {&out_bare, 1}, nullptr, 0, &context, &mesh};
  size_t bytes = row.workspace ? row.workspace(bare) : 0;
  Tensor workspace = Tensor::Empty(DType::kU8, {int64_t(bytes)});
  KernelCall call{&c.attrs, {&in_view, 1}, {&out_view, 1}, workspace.data(), bytes, &context, &mesh};
  size_t buffers = CpuBuffersAllocated();
  row.run(call);
  if (mesh.size() == 1) {
    EXPECT_EQ(CpuBuffersAllocated(), buffers);
  }

  int wrong = 0;
  ForEach(out_view, [&](const auto& index, int64_t at) {
    double want = ValueAt(c.global, index);
    if (c.op == Op::kMaskPartial && c.to[int(c.attrs.Int("axis"))].reduce == ReduceOp::kSum &&
        mesh.coords()[size_t(c.attrs.Int("axis"))])
      want = 0;
    if (Load(out_view, at) != want && wrong++ == 0)
      ADD_FAILURE() << Text(c) << ": rank " << mesh.rank() << " has " << Load(out_view, at) << " at storage " << at
                    << ", expected " << want;
  });
}

Sharding With(Sharding s, int axis, Placement p) {
  s.Set(axis, p);
  return s;
}

// Calls fn for every legal row from a sharding: every axis that can change, every op and every dim.
void ForEachCase(const MeshShape& mesh, const Shape& global, DType dtype, const Sharding& base,
                 const std::function<void(const Case&)>& fn) {
  for (int axis = 0; axis < mesh.num_axes(); axis++) {
    if (base[axis].kind != Placement::kReplicate) continue;
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
      fn({mesh,
          global,
          dtype,
          With(base, axis, Partial(op)),
          base,
          Op::kAllReduce,
          {{"axis", axis}, {"reduce", int(op)}}});
      fn({mesh,
          global,
          dtype,
          base,
          With(base, axis, Partial(op)),
          Op::kMaskPartial,
          {{"axis", axis}, {"reduce", int(op)}}});
      for (int d = 0; d < int(global.size()); d++)
        fn({mesh,
            global,
            dtype,
            With(base, axis, Partial(op)),
            With(base, axis, Shard(d)),
            Op::kReduceScatter,
            {{"axis", axis}, {"dim", d}, {"reduce", int(op)}}});
    }
    for (int d = 0; d < int(global.size()); d++) {
      fn({mesh, global, dtype, With(base, axis, Shard(d)), base, Op::kAllGather, {{"axis", axis}, {"dim", d}}});
      fn({mesh, global, dtype, base, With(base, axis, Shard(d)), Op::kLocalSlice, {{"axis", axis}, {"dim", d}}});
      for (int s = 0; s < int(global.size()); s++)
        if (s != d)
          fn({mesh,
              global,
              dtype,
              With(base, axis, Shard(d)),
              With(base, axis, Shard(s)),
              Op::kAllToAll,
              {{"axis", axis}, {"gather_dim", d}, {"split_dim", s}}});
    }
  }
}

std::vector<MeshShape> Meshes(int ranks) {
  switch (ranks) {
    case 1:
      return {{{"a"}, {1}}};
    case 2:
      return {{{"a"}, {2}}, {{"a", "b"}, {1, 2}}};
    case 3:
      return {{{"a"}, {3}}};
    case 4:
      return {{{"a"}, {4}}, {{"a", "b"}, {2, 2}}};
    default:
      return {{{"a", "b"}, {2, 3}}};
  }
}

TEST(CollectiveRows, EveryLegalMoveKeepsTheGlobalTensor) {
  std::atomic<int> ran{0};
  for (int ranks : {1, 2, 3, 4, 6})
    RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
      RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      std::mt19937 random(7);  // all ranks draw the same cases
      for (const MeshShape& shape : Meshes(ranks)) {
        DeviceMesh mesh(context, groups, shape);
        for (int round = 0; round < 60; round++) {
          Shape global;
          for (size_t d = 0; d < 1 + random() % 3; d++) global.push_back(random() % 8 + (round % 4 != 0));
          DType dtype = round % 3 == 0 ? DType::kBF16 : round % 3 == 1 ? DType::kF32 : DType::kI64;
          Sharding base(shape.num_axes());
          std::vector<Sharding> bases{base};
          if (shape.num_axes() == 2)  // the other axis already shards a dim, maybe the same one
            for (int axis : {0, 1})
              for (int d = 0; d < int(global.size()); d++) bases.push_back(With(base, axis, Shard(d)));
          for (const Sharding& b : bases)
            ForEachCase(shape, global, dtype, b, [&](const Case& c) {
              RunCase(c, mesh, context);
              ran += context.rank() == 0;
            });
        }
      }
    });
  std::printf("ran %d cases\n", ran.load());
  EXPECT_GT(ran.load(), 5000);
}

TEST(CollectiveRows, CountsAreTheBytesHandedOver) {
  RunRanks(2, [](Context& context, GroupFactory& groups) {
    DeviceMesh mesh(context, groups, {{"dp", "tp"}, {1, 2}});
    Tensor x = Tensor::Zeros(DType::kF32, {3, 5});
    collectives::AllReduce(x, mesh, "tp");
    collectives::AllReduce(x, mesh, "tp");
    collectives::AllGather(x, mesh, "tp", 1);
    collectives::ReduceScatter(x, mesh, "tp", 0);  // two chunks of 2 rows; the input has 3
    collectives::AllToAll(x, mesh, "tp", 0, 1);    // two chunks of 3 columns; the input has 5
    collectives::AllReduce(x, mesh, "dp");
    using A = DeviceMesh::AxisCount;
    std::vector<A> want{{0, CollectiveOp::kAllReduce, {1, 60}},
                        {1, CollectiveOp::kAllReduce, {2, 120}},
                        {1, CollectiveOp::kAllGather, {1, 60}},
                        {1, CollectiveOp::kReduceScatter, {1, 80}},
                        {1, CollectiveOp::kAllToAll, {1, 72}}};
    EXPECT_TRUE(mesh.Counts() == want);
    mesh.ResetCounts();
    EXPECT_TRUE(mesh.Counts().empty());
  });
}

TEST(Collectives, TensorsOfUnevenShapes) {
  for (int ranks = 1; ranks <= 4; ranks++)
    RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
      DeviceMesh mesh(context, groups, {{"x"}, {ranks}});
      Tensor full = Tensor::FromDoubles(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, DType::kBF16, {2, 5});
      Tensor part = collectives::ReduceScatter(full, mesh, "x", -1);
      EXPECT_EQ(part.shape()[1], (5 + ranks - 1) / ranks);
      Tensor back = collectives::AllGather(part, mesh, "x", 1, 5);
      for (int i = 0; i < 10; i++) EXPECT_EQ(back.ToDoubles()[size_t(i)], i * ranks);
      Tensor rows = collectives::AllToAll(part, mesh, "x", 1, 0, 5);
      EXPECT_EQ(rows.shape(), (Shape{(2 + ranks - 1) / ranks, 5}));
      Tensor mine = Tensor::Scalar(context.rank(), DType::kF16);
      for (int by : {0, 1, -1, ranks})
        EXPECT_EQ(collectives::Shift(mine, mesh, "x", by).Item(), (context.rank() - by + 2 * ranks) % ranks);
      EXPECT_EQ(collectives::Broadcast(mine, mesh, "x", ranks - 1).Item(), ranks - 1);
      EXPECT_EQ(collectives::AllReduce(mine, mesh, "x", ReduceOp::kMax).Item(), ranks - 1);
    });
}

}  // namespace
}  // namespace weft
