// Laws of the rows for sums with a wire (core/ir/wire.h). The result is the f32 sum, in rank order, of terms that were
// rounded to bf16; all_reduce rounds that sum once more. The terms of a reduce_scatter may be bf16 already, and then
// its sums may be rounded too. Every rank knows the terms of all ranks, so each checks the bits of its own result. So
// ranks that hold the same element have the same bits.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/base/tensor.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"

namespace weft::test {

struct WireCase {
  Op op;  // kReduceScatter or kAllReduce
  Shape global;
  int dim = 0;  // the dim of a reduce_scatter
  bool wire = true, in_place = false;
  DType terms = DType::kF32, sums = DType::kF32;
};

// Returns cases for all dims of several shapes: empty ones, and ones that chunks divide, do not divide or outnumber.
inline std::vector<WireCase> WireCases(bool plain) {
  std::vector<WireCase> cases;
  for (const Shape& global : std::vector<Shape>{
           {}, {0}, {1}, {5}, {24}, {840}, {2501}, {7, 12}, {12, 7}, {1, 64}, {3, 5, 8}, {3, 8, 16}, {420, 3}}) {
    for (bool wire : {true, false}) {
      if (!wire && !plain) continue;
      for (int d = 0; d < int(global.size()); d++) {
        cases.push_back({Op::kReduceScatter, global, d, wire});
        for (DType sums : {DType::kF32, DType::kBF16})
          if (wire)
            cases.push_back(
                {.op = Op::kReduceScatter, .global = global, .dim = d, .terms = DType::kBF16, .sums = sums});
      }
      for (bool in_place : {false, true}) cases.push_back({Op::kAllReduce, global, 0, wire, in_place});
    }
  }
  return cases;
}

// Returns rank r's term of element i: values whose sums round, ties between neighbours in bf16, and values outside the
// range of bf16.
inline float WireTerm(int r, int64_t i, int ranks) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  bool first = r == int(i / 16) % ranks;
  switch (i % 16) {
    case 3:
      return first ? kInfinity : 1;
    case 5:
      return r == 0 ? kInfinity : r == ranks - 1 ? -kInfinity : 0;
    case 7:
      return first ? std::numeric_limits<float>::quiet_NaN() : 1;
    case 9:
      return first ? std::numeric_limits<float>::max() : 0;
    case 11:
      return (first ? 1 : -1) * 1e-40f;
    case 13:
      return 1 + 0x1p-8f * float((i / 16 + r) % 4);
    case 15:
      return -0.0f;
    default:
      return float(std::sin(double(i * 7 + r)) * std::pow(10.0, double((i + r) % 5)));
  }
}

inline float WireSum(const WireCase& c, int64_t i, int ranks) {
  auto term = [&](int r) {
    float x = WireTerm(r, i, ranks);
    return c.wire ? float(BF16(x)) : x;
  };
  float sum = term(0);
  for (int r = 1; r < ranks; r++) sum += term(r);
  return c.wire && (c.op == Op::kAllReduce || c.sums == DType::kBF16) ? float(BF16(sum)) : sum;
}

// A call of a row on this rank, with its memory. It must not move, because the call has views of its members.
class WireCall {
 public:
  WireCall(const WireCase& c, DeviceMesh& mesh, const Context& context, DeviceKind kind) : c_(c), ranks_(mesh.size()) {
    DeviceRuntime& device = context.device(kind);
    Sharding whole(1), part(1);
    if (c.op == Op::kReduceScatter) part.Set(0, Shard(c.dim));
    attrs_ = {{"axis", 0}, {"reduce", int(ReduceOp::kSum)}};
    if (c.op == Op::kReduceScatter) attrs_.Set({"dim", c.dim});
    if (c.wire) attrs_.Set({"wire", int(DType::kBF16)});
    in_ = TermsOf(mesh.rank()).To(device);
    out_ = c.in_place ? in_ : Tensor::Empty(c.sums, ChunkShape(c.global, part, mesh.shape()), device);
    if (!c.in_place) device.Fill(out_.data(), 0x5a, out_.bytes());
    in_view_ = MakeView(nullptr, c.terms, c.global, whole, mesh.shape(), mesh.coords());
    out_view_ = MakeView(nullptr, c.sums, c.global, part, mesh.shape(), mesh.coords());
    call = {&attrs_, {&in_view_, 1}, {&out_view_, 1}, nullptr, 0, &context, &mesh};
    const KernelRow& row = context.kernels(kind).Row(c.op);
    call.workspace_bytes = row.workspace(call);  // computed before memory exists
    workspace_ = device.Allocate(call.workspace_bytes);
    device.Fill(workspace_->data(), 0xff, call.workspace_bytes);
    call.workspace = workspace_->data();
    in_view_.data = in_.data();
    out_view_.data = out_.data();
  }
  WireCall(const WireCall&) = delete;
  WireCall& operator=(const WireCall&) = delete;

  void Check() const {
    Tensor got = out_.To(CpuRuntime());
    const TensorView& v = out_view_;
    int64_t elements = v.NumElements();
    for (int64_t i = 0; i < elements; i++) {
      int64_t rest = i, at = 0, global = 0, inner = 1;
      for (int d = v.rank - 1; d >= 0; d--) {
        int64_t index = rest % v.dim(d).extent;
        rest /= v.dim(d).extent;
        at += index * v.dim(d).stride;
        global += (v.dim(d).offset + index) * inner;
        inner *= v.dim(d).global;
      }
      float have = c_.sums == DType::kBF16 ? float(got.as<BF16>()[at]) : got.as<float>()[at],
            want = WireSum(c_, global, ranks_);
      bool same = std::isnan(want) ? std::isnan(have) : std::memcmp(&have, &want, sizeof(float)) == 0;
      if (same) continue;
      ADD_FAILURE() << fmt::format("{} of {} {} dim {}{}{} on {} ranks: element {} is {}, expected {}", Name(c_.op),
                                   Name(c_.terms), ToString(c_.global), c_.dim, c_.wire ? " with wire" : "",
                                   c_.in_place ? " in place" : "", ranks_, global, have, want);
      return;
    }
  }

  // Adds the calls and bytes, by op, that a communication plan has for this call.
  void AddPlanned(std::map<std::string, std::pair<int64_t, int64_t>>& planned) const {
    auto source = std::make_shared<Node>();
    source->outputs.push_back({c_.terms, in_.shape(), {}, {}});
    Node node;
    node.op = c_.op;
    node.attrs = attrs_;
    node.inputs.emplace_back(source, 0);
    node.outputs.push_back({c_.sums, out_.shape(), {}, {}});
    for (const GroupCall& made : GroupCallsOf(node, ranks_)) {
      auto& [calls, bytes] = planned[Name(made.op)];
      calls++;
      bytes += made.bytes();
    }
  }

  KernelCall call;

 private:
  Tensor TermsOf(int rank) const {
    Tensor terms = Tensor::Empty(c_.terms, c_.global);
    for (int64_t i = 0; i < NumElements(c_.global); i++) {
      float term = WireTerm(rank, i, ranks_);
      if (c_.terms == DType::kBF16)
        terms.as<BF16>()[i] = BF16(term);
      else
        terms.as<float>()[i] = term;
    }
    return terms;
  }

  WireCase c_;
  int ranks_;
  Attrs attrs_;
  Tensor in_, out_;
  BufferPtr workspace_;
  TensorView in_view_, out_view_;
};

// Runs all cases on a mesh of one axis: each by itself and, if the row has run_many, all cases of an op in one call.
// With `plain` there are also sums without a wire, for groups that add f32 in rank order. Returns the number of calls.
inline int CheckWireRows(DeviceMesh& mesh, const Context& context, DeviceKind kind, bool plain = true) {
  std::map<std::string, std::pair<int64_t, int64_t>> planned, counted;
  mesh.ResetCounts();
  int ran = 0;
  for (Op op : {Op::kReduceScatter, Op::kAllReduce}) {
    const KernelRow& row = context.kernels(kind).Row(op);
    for (bool together : {false, true}) {
      if (together && !row.run_many) continue;
      std::deque<WireCall> made;
      std::vector<KernelCall> calls;
      for (const WireCase& c : WireCases(plain))
        if (c.op == op) calls.push_back(made.emplace_back(c, mesh, context, kind).call);
      if (together)
        row.run_many(calls);
      else
        for (const KernelCall& call : calls) row.run(call);
      for (const WireCall& one : made) {
        one.Check();
        one.AddPlanned(planned);
      }
      ran += int(made.size());
    }
  }
  for (const DeviceMesh::AxisCount& c : mesh.Counts()) counted[Name(c.op)] = {c.count.calls, c.count.bytes};
  EXPECT_EQ(counted, planned);
  return ran;
}

}  // namespace weft::test
