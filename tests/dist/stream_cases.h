// The law of all stream-ordered groups: an enqueued call, on the main stream or on another one, gives the bits of the
// host's group.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "dist/collective_law.h"
#include "weft/core/runtime/streams.h"

namespace weft::test {

// A call of one rank, without its memory.
struct StreamCase {
  Collective call;
  int64_t in = 0, out = 0;  // counted in elements
  bool in_place = false;
  std::vector<int64_t> sends{}, receives{};  // for the call's send_counts and recv_counts
};

// Returns how many elements rank `from` gives rank `to`. Some pieces are empty.
inline int64_t Piece(int from, int to, int ranks, int64_t n) { return (from + 2 * to) % ranks * n; }

inline void AddUneven(std::vector<StreamCase>& cases, DType dtype, int ranks, int me, int64_t n) {
  StreamCase gather{.call = {.op = CollectiveOp::kAllGatherV, .dtype = dtype}},
      exchange{.call = {.op = CollectiveOp::kAllToAllV, .dtype = dtype}};
  for (int r = 0; r < ranks; r++) {
    gather.receives.push_back(Piece(r, 0, ranks, n));
    exchange.sends.push_back(Piece(me, r, ranks, n));
    exchange.receives.push_back(Piece(r, me, ranks, n));
  }
  auto sum = [](const std::vector<int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  };
  gather.in = gather.call.count = gather.receives[size_t(me)];
  gather.out = sum(gather.receives);
  exchange.in = exchange.call.count = sum(exchange.sends);
  exchange.out = sum(exchange.receives);
  cases.push_back(gather);
  cases.push_back(exchange);
}

// Calls whose pieces lie in three blocks of n elements.
inline void AddBlocks(std::vector<StreamCase>& cases, DType dtype, int ranks, int64_t n) {
  constexpr int64_t kBlocks = 3;
  Collective call{.count = kBlocks * n, .blocks = kBlocks, .dtype = dtype};
  call.op = CollectiveOp::kAllGather;
  cases.push_back({.call = call, .in = call.count, .out = call.count * ranks});
  call.op = CollectiveOp::kReduceScatter;
  cases.push_back({.call = call, .in = call.count * ranks, .out = call.count});
  call.op = CollectiveOp::kAllToAll;
  cases.push_back({.call = call, .in = call.count * ranks, .out = call.count * ranks});
}

inline std::vector<StreamCase> CasesOf(DType dtype, int ranks, int me, int64_t n) {
  std::vector<StreamCase> cases;
  auto add = [&](CollectiveOp op, int64_t in, int64_t out, int peer = 0, ReduceOp reduce = ReduceOp::kSum,
                 bool in_place = false) {
    cases.push_back({.call = {.op = op, .count = n, .dtype = dtype, .reduce = reduce, .peer = peer},
                     .in = in,
                     .out = out,
                     .in_place = in_place});
  };
  for (ReduceOp reduce : kAllReduceOps) {
    add(CollectiveOp::kAllReduce, n, n, 0, reduce);
    add(CollectiveOp::kAllReduce, n, n, 0, reduce, true);
    add(CollectiveOp::kReduceScatter, n * ranks, n, 0, reduce);
    for (int root = 0; root < ranks; root++) add(CollectiveOp::kReduce, n, n, root, reduce);
  }
  add(CollectiveOp::kAllGather, n, n * ranks);
  add(CollectiveOp::kAllToAll, n * ranks, n * ranks);
  for (int root = 0; root < ranks; root++) add(CollectiveOp::kBroadcast, n, n, root, ReduceOp::kSum, true);
  for (int by = 0; by < ranks; by++) add(CollectiveOp::kShift, n, n, by);
  AddUneven(cases, dtype, ranks, me, n);
  add(CollectiveOp::kBarrier, 0, 0);
  if (ranks > 1 && me == 0) add(CollectiveOp::kSend, n, 0, 1);
  if (ranks > 1 && me == 1) add(CollectiveOp::kRecv, 0, n, 0);
  return cases;
}

// kRounding gives values whose sums round, so that another order of summation shows. kWhole gives integers, whose sums
// are exact in any order.
enum class Values { kRounding, kWhole };
inline Tensor InputOf(int me, int64_t elements, DType dtype, size_t salt, Values kind) {
  std::vector<double> values;
  for (int64_t i = 0; i < elements; i++) {
    double x = std::sin(double(i * 7 + me * 3) + double(salt)) * std::pow(10.0, me);
    bool rounds = IsFloating(dtype) && kind == Values::kRounding;
    values.push_back(dtype == DType::kBool ? double(x > 0) : rounds ? x : std::fmod(std::round(std::abs(x)), 50));
  }
  return Tensor::FromDoubles(values, dtype, {elements});
}

// Calls `make` with a call on tensors of the device. Returns the tensor that the call writes.
inline Tensor Make(const StreamCase& c, const Tensor& input, DeviceRuntime& device,
                   const std::function<void(Collective&)>& make) {
  Tensor in = input.To(device), out = c.in_place ? in : Tensor::Zeros(input.dtype(), {c.out}, device);
  Collective call = c.call;
  call.in = in.data();
  call.out = out.data();
  call.send_counts = c.sends;
  call.recv_counts = c.receives;
  make(call);
  return out;
}

// Runs a call on a group that takes one block, with the pieces of each rank packed.
inline void RunPacked(ProcessGroup& group, Collective call) {
  int64_t blocks = std::exchange(call.blocks, 1), ranks = group.size();
  if (blocks == 1) return group.Run(call);
  auto bytes = size_t(call.count / blocks) * SizeOf(call.dtype);
  std::vector<char> sent(bytes * size_t(blocks * ranks)), received(sent.size());
  auto for_each = [&](auto fn) {  // places of a piece in a whole tensor and in a packed one
    for (int64_t block = 0; block < blocks; block++)
      for (int64_t r = 0; r < ranks; r++) fn(bytes * size_t(block * ranks + r), bytes * size_t(r * blocks + block));
  };
  bool splits = call.op != CollectiveOp::kAllGather, joins = call.op != CollectiveOp::kReduceScatter;
  if (splits) {
    auto* whole = static_cast<const char*>(std::exchange(call.in, sent.data()));
    for_each([&](size_t at, size_t in_packed) { std::memcpy(sent.data() + in_packed, whole + at, bytes); });
  }
  char* whole = joins ? static_cast<char*>(std::exchange(call.out, received.data())) : nullptr;
  group.Run(call);
  if (joins)
    for_each([&](size_t at, size_t in_packed) { std::memcpy(whole + at, received.data() + in_packed, bytes); });
}

// The largest size exceeds a slot of the host's group.
inline std::vector<int64_t> SizesOf(DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kBF16) return {0, 1, 7, 3000};
  return {7};
}

// Runs all cases on one rank, every second one on a stream other than the main one. Returns the number of cases.
inline int CheckStreamCases(StreamedDevice& device, ProcessGroup& host, ProcessGroup& group,
                            Values values = Values::kRounding) {
  auto beside = device.NewStream();
  auto made = device.NewEvent(), moved = device.NewEvent();
  auto enqueue_beside = [&](const Collective& call) {
    made->Record();
    {
      StreamScope scope(device, beside.get());
      device.Wait(*made);
      group.Enqueue(call);
      moved->Record();
    }
    device.Wait(*moved);
  };
  int calls = 0;
  for (DType dtype : kAllDTypes)
    for (int64_t n : SizesOf(dtype)) {
      std::vector<StreamCase> cases = CasesOf(dtype, group.size(), group.rank(), n);
      if (group.takes_blocks()) AddBlocks(cases, dtype, group.size(), n);
      std::vector<Tensor> want, got;
      for (size_t i = 0; i < cases.size(); i++) {
        Tensor input = InputOf(group.rank(), cases[i].in, dtype, i, values);
        want.push_back(Make(cases[i], input, CpuRuntime(), [&](Collective& call) { RunPacked(host, call); }));
        got.push_back(Make(cases[i], input, device, [&](Collective& call) {
          if (i % 2)
            group.Enqueue(call);
          else
            enqueue_beside(call);
        }));
      }
      for (size_t i = 0; i < cases.size(); i++) {
        if (want[i].bytes() == 0) continue;
        Tensor bytes = got[i].To(CpuRuntime());
        EXPECT_EQ(std::memcmp(bytes.data(), want[i].data(), want[i].bytes()), 0)
            << ToString(cases[i].call) << " on " << group.size() << " ranks, rank " << group.rank();
      }
      calls += int(cases.size());
    }
  for (int op = 0; op < kNumCollectiveOps; op++) {
    CallCount mine = group.count(CollectiveOp(op)), theirs = host.count(CollectiveOp(op));
    EXPECT_EQ(mine.calls, theirs.calls) << Name(CollectiveOp(op));
    EXPECT_EQ(mine.bytes, theirs.bytes) << Name(CollectiveOp(op));
  }
  return calls;
}

}  // namespace weft::test
