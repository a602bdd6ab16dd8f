// The laws of all collectives of all groups, checked against serial references (collective_values.h).
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "dist/collective_values.h"
#include "weft/core/base/tensor.h"
#include "weft/dist/group/process_group.h"

namespace weft::test {

inline constexpr DType kAllDTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                       DType::kI64, DType::kI32, DType::kU8,   DType::kBool};
inline constexpr ReduceOp kAllReduceOps[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin};

inline Tensor Filled(int r, int64_t n, DType dtype, int salt = 0) {
  return Tensor::FromDoubles(InputValues(r, 0, n, dtype, salt), dtype, {n});
}

// Reports only the first difference, to keep the message short.
inline void ExpectValues(const Tensor& got, const std::vector<double>& want, const std::string& what) {
  std::vector<double> values = got.ToDoubles();
  ASSERT_EQ(values.size(), want.size()) << what;
  int64_t i = FirstDifference(values, want);
  if (i >= 0)
    ADD_FAILURE() << what << ": element " << i << " is " << values[size_t(i)] << ", expected " << want[size_t(i)];
}

// Runs the collectives that have a root, with each root.
inline void CheckRoots(ProcessGroup& g, DType dtype, int64_t n, const std::string& what) {
  const int k = g.size(), me = g.rank();
  for (int root = 0; root < k; root++) {
    Tensor data = Filled(me, n, dtype, root);
    g.Broadcast(data.data(), n, dtype, root);
    ExpectValues(data, InputValues(root, 0, n, dtype, root), what + " broadcast");
  }
  for (int root = 0; root < k; root++)
    for (ReduceOp op : kAllReduceOps) {
      Tensor data = Filled(me, n, dtype, root), got = Tensor::Zeros(dtype, {n});
      g.Reduce(data.data(), got.data(), n, dtype, root, op);
      std::vector<double> sum = Reductions(k, 0, n, dtype, op, root);
      ExpectValues(got, me == root ? sum : std::vector<double>(size_t(n)), what + " reduce to a root");
      g.Reduce(data.data(), data.data(), n, dtype, root, op);
      ExpectValues(data, me == root ? sum : InputValues(me, 0, n, dtype, root), what + " reduce in place");
    }
}

inline void Append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
// Returns elements [first, first + n) of the inputs of all ranks, one rank after the other.
inline std::vector<double> OfAllRanks(int ranks, int64_t first, int64_t n, DType dtype, int salt) {
  std::vector<double> all;
  for (int r = 0; r < ranks; r++) Append(all, InputValues(r, first, n, dtype, salt));
  return all;
}

// Runs every collective with pieces of n elements.
inline void CheckCollectives(ProcessGroup& g, DType dtype, int64_t n) {
  const int k = g.size(), me = g.rank();
  std::string what = std::string(Name(dtype)) + " x " + std::to_string(n) + " on " + std::to_string(k) +
                     " ranks, rank " + std::to_string(me);
  for (ReduceOp op : kAllReduceOps) {
    Tensor in = Filled(me, n, dtype), out = Tensor::Empty(dtype, {n});
    g.AllReduce(in.data(), out.data(), n, dtype, op);
    std::vector<double> sum = Reductions(k, 0, n, dtype, op);
    ExpectValues(out, sum, what + " all_reduce " + Name(op));
    g.AllReduce(in.data(), in.data(), n, dtype, op);
    ExpectValues(in, sum, what + " all_reduce in place " + Name(op));
    Tensor big = Filled(me, n * k, dtype, 1);
    g.ReduceScatter(big.data(), out.data(), n, dtype, op);
    ExpectValues(out, Reductions(k, me * n, n, dtype, op, 1), what + " reduce_scatter " + Name(op));
  }
  Tensor in = Filled(me, n, dtype, 2), all = Tensor::Empty(dtype, {n * k});
  g.AllGather(in.data(), all.data(), n, dtype);
  ExpectValues(all, OfAllRanks(k, 0, n, dtype, 2), what + " all_gather");
  Tensor spread = Filled(me, n * k, dtype, 3);
  g.AllToAll(spread.data(), all.data(), n, dtype);
  ExpectValues(all, OfAllRanks(k, me * n, n, dtype, 3), what + " all_to_all");
  CheckRoots(g, dtype, n, what);
  for (int by = -k - 1; by <= k + 1; by++) {
    Tensor data = Filled(me, n, dtype, 4), got = Tensor::Empty(dtype, {n});
    g.Shift(data.data(), got.data(), n, dtype, by);
    int from = (me - by + 3 * k) % k;
    ExpectValues(got, InputValues(from, 0, n, dtype, 4), what + " shift by " + std::to_string(by));
  }
  g.Barrier();
}

// Pieces of unequal size: (from + 2 * to) % k * n elements, and one more if from equals to. Some are empty.
inline void CheckUneven(ProcessGroup& g, DType dtype, int64_t n) {
  const int k = g.size(), me = g.rank();
  std::string what = std::string(Name(dtype)) + " x " + std::to_string(n) + " on " + std::to_string(k) +
                     " ranks, rank " + std::to_string(me);
  auto piece = [&](int from, int to) { return (from + 2 * to) % k * n + (from == to); };
  std::vector<int64_t> counts, send, recv;
  std::vector<double> gathered, exchanged;
  for (int r = 0; r < k; r++) {
    counts.push_back(piece(r, 0));
    send.push_back(piece(me, r));
    recv.push_back(piece(r, me));
    Append(gathered, InputValues(r, 0, counts.back(), dtype));
    int64_t skip = 0;
    for (int to = 0; to < me; to++) skip += piece(r, to);
    Append(exchanged, InputValues(r, skip, recv.back(), dtype));
  }
  int64_t sent = 0;
  for (int64_t c : send) sent += c;
  Tensor in = Filled(me, counts[size_t(me)], dtype), out = Tensor::Empty(dtype, {int64_t(gathered.size())});
  g.AllGatherV(in.data(), out.data(), counts, dtype);
  ExpectValues(out, gathered, what + " all_gather_v");
  Tensor all = Filled(me, sent, dtype), mine = Tensor::Empty(dtype, {int64_t(exchanged.size())});
  g.AllToAllV(all.data(), send, mine.data(), recv, dtype);
  ExpectValues(mine, exchanged, what + " all_to_all_v");
}

// A ring: each rank sends in the background and receives.
inline void CheckRing(ProcessGroup& g, DType dtype, int64_t n) {
  const int k = g.size(), me = g.rank();
  if (k == 1) return;
  for (int salt = 0; salt < 3; salt++) {
    Tensor data = Filled(me, n, dtype, salt), got = Tensor::Empty(dtype, {n});
    Work sent =
        g.Start({.op = CollectiveOp::kSend, .in = data.data(), .count = n, .dtype = dtype, .peer = (me + 1) % k});
    g.Recv(got.data(), n, dtype, (me + k - 1) % k);
    sent.Wait();
    ExpectValues(got, InputValues((me + k - 1) % k, 0, n, dtype, salt), "ring");
  }
}

// Several calls in flight, with a blocking one among them, keep their order.
inline void CheckBackground(ProcessGroup& g) {
  std::vector<Tensor> tensors;
  std::vector<Work> works;
  for (int j = 0; j < 8; j++) tensors.push_back(Filled(g.rank(), 300, DType::kF32, j));
  for (int j = 0; j < 8; j++) {
    void* data = tensors[size_t(j)].data();
    if (j == 5)
      g.AllReduce(data, data, 300, DType::kF32);
    else
      works.push_back(g.Start({.op = CollectiveOp::kAllReduce, .in = data, .out = data, .count = 300}));
  }
  for (Work& work : works) work.Wait();
  for (int j = 0; j < 8; j++)
    ExpectValues(tensors[size_t(j)], Reductions(g.size(), 0, 300, DType::kF32, ReduceOp::kSum, j), "background");
  for (Work& work : works) EXPECT_TRUE(work.Test() && !work.error());
}

}  // namespace weft::test
