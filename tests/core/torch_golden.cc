#include "core/torch_golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "parallel/testing.h"
#include "weft/core/compile/eager.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"

namespace weft::test {
namespace {

using Json = nlohmann::json;

double NumberOf(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  if (value == "nan") return std::nan("");
  return (value == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
}
std::vector<double> NumbersOf(const Json& values) {
  std::vector<double> numbers;
  for (const Json& v : values) numbers.push_back(NumberOf(v));
  return numbers;
}
// The values that drawn() in torch_golden.py makes.
std::vector<double> Drawn(uint32_t seed, int64_t elements) {
  std::vector<double> numbers;
  for (int64_t k = 0; k < elements; k++) {
    uint32_t h = seed * 0x9E3779B1u + uint32_t(k) * 0x85EBCA77u;
    h = (h ^ (h >> 16)) * 0x7FEB352Du;
    h = (h ^ (h >> 15)) * 0x846CA68Bu;
    numbers.push_back((double((h ^ (h >> 16)) % 257) - 128) / 128);
  }
  return numbers;
}
Tensor TensorOf(const Json& json) {
  auto extents = json.at("shape").get<std::vector<int64_t>>();
  Shape shape(extents.begin(), extents.end());
  return Tensor::FromDoubles(
      json.contains("draw") ? Drawn(json["draw"], NumElements(shape)) : NumbersOf(json.at("values")),
      *DTypeFromName(json.at("dtype").get<std::string>()), shape);
}

// Element k of the cotangent of output o is sin(1 + k + o).
Tensor Cotangent(const Tensor& output, size_t o) {
  std::vector<double> values;
  for (int64_t k = 0; k < NumElements(output.shape()); k++) values.push_back(std::sin(1.0 + double(k) + double(o)));
  return Tensor::FromDoubles(values, output.dtype(), output.shape());
}

RandomPhase PhaseOf(const GoldenCase& c) {
  return c.attrs.value("eval", false) ? RandomPhase::kEval : RandomPhase::kTrain;
}

// The outputs, then the gradients that the case has. An empty Var: a gradient of zeros.
struct Results {
  Vars outputs, gradients;
};
Results Run(const GoldenCase& c, const GoldenFunction& fn, const Vars& in, const Vars& cotangents) {
  Results results{fn(c, in), {}};
  EXPECT_EQ(results.outputs.size(), c.out.size()) << c.op;
  if (c.grad.empty()) return results;
  Vars floating;
  for (const Var& y : results.outputs)
    if (IsFloating(y.dtype())) floating.push_back(y);
  results.gradients = Vjp(floating, cotangents, in);
  return results;
}

void ExpectNear(const GoldenCase& c, const std::string& what, const std::vector<double>& got,
                const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size()) << c.op << " " << what;
  double scale = 1;
  for (double w : want)
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
  for (size_t i = 0; i < want.size(); i++) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    ASSERT_LE(std::abs(got[i] - want[i]), c.tolerance * scale) << fmt::format(
        "line {}: {} {} {} element {}: got {}, PyTorch has {}", c.line, c.op, c.attrs.dump(), what, i, got[i], want[i]);
  }
}
void ExpectOutput(const GoldenCase& c, size_t o, const Tensor& got) {
  EXPECT_EQ(got.dtype(), c.out[o].dtype()) << "line " << c.line << ": " << c.op;
  ASSERT_EQ(got.shape(), c.out[o].shape()) << "line " << c.line << ": " << c.op;
  ExpectNear(c, fmt::format("output {}", o), got.ToDoubles(), c.out[o].ToDoubles());
}
void ExpectGradient(const GoldenCase& c, size_t i, const std::vector<double>& got) {
  ExpectNear(c, fmt::format("gradient {}", i), got, *c.grad[i]);
}
std::vector<double> Zeros(const GoldenCase& c, size_t i) {
  return std::vector<double>(size_t(NumElements(c.in[i].shape())), 0.0);
}
bool HasGradient(const GoldenCase& c, size_t i) { return i < c.grad.size() && c.grad[i]; }

// The program of a case, whose first operand has this placement. Gradients of zeros are left out.
struct GoldenProgram {
  Graph graph;
  Values leaves;
};
GoldenProgram ProgramOf(const GoldenCase& c, const GoldenFunction& fn, const Sharding& placement) {
  GoldenProgram program;
  auto leaf = [&](const std::string& name, const Tensor& value, const Sharding& placed) {
    program.leaves[name] = value;
    return Leaf(name, value.dtype(), value.shape(), placed);
  };
  program.graph = Trace(
      [&] {
        Vars in, cotangents;
        for (size_t i = 0; i < c.in.size(); i++)
          in.push_back(leaf(fmt::format("in{}", i), c.in[i], i == 0 ? placement : Sharding()));
        for (size_t o = 0; o < c.out.size(); o++)
          if (IsFloating(c.out[o].dtype()))
            cotangents.push_back(leaf(fmt::format("dy{}", o), Cotangent(c.out[o], o), Sharding()));
        Results results = Run(c, fn, in, cotangents);
        Traced traced;
        for (size_t o = 0; o < results.outputs.size(); o++)
          traced.outputs.push_back({fmt::format("y{}", o), results.outputs[o]});
        for (size_t i = 0; i < results.gradients.size(); i++)
          if (HasGradient(c, i) && results.gradients[i].defined())
            traced.outputs.push_back({fmt::format("d{}", i), results.gradients[i]});
        return traced;
      },
      7, PhaseOf(c));
  return program;
}
void ExpectValues(const GoldenCase& c, const Values& got) {
  for (size_t o = 0; o < c.out.size(); o++) ExpectOutput(c, o, got.at(fmt::format("y{}", o)));
  for (size_t i = 0; i < c.in.size(); i++) {
    if (!HasGradient(c, i)) continue;
    auto found = got.find(fmt::format("d{}", i));
    ExpectGradient(c, i, found == got.end() ? Zeros(c, i) : found->second.ToDoubles());
  }
}

// Replicate for a scalar. Otherwise the first and last dim over the two axes, one of them, or, in f64, a sum. The terms
// of a sum in a narrower type are rounded, which may change an order or the result of a rounding op.
Sharding PlacementOf(const GoldenCase& c) {
  int last = int(c.in[0].shape().size()) - 1;
  if (last < 0) return {Replicate(), Replicate()};
  switch (c.line % 4) {
    case 0:
      return {Shard(0), Shard(last)};
    case 1:
      return {Shard(last), Replicate()};
    case 2:
      return {Replicate(), Shard(0)};
    default:
      return c.in[0].dtype() == DType::kF64 ? Sharding{Partial(), Shard(0)} : Sharding{Shard(0), Replicate()};
  }
}

}  // namespace

std::vector<GoldenCase> ReadGolden(const std::string& file) {
  std::ifstream lines(std::string(WEFT_GOLDEN_DIR) + "/" + file);
  WEFT_CHECK(lines.good(), "cannot read " WEFT_GOLDEN_DIR "/" + file);
  std::vector<GoldenCase> cases;
  std::string line;
  for (int number = 1; std::getline(lines, line); number++) {
    Json json = Json::parse(line);
    GoldenCase c{number, json.at("op"), json.at("attrs"), {}, {}, {}, json.at("tolerance")};
    for (const Json& x : json.at("in")) c.in.push_back(TensorOf(x));
    for (const Json& y : json.at("out")) c.out.push_back(TensorOf(y));
    for (const Json& d : json.at("grad")) {
      c.grad.emplace_back();
      if (!d.is_null()) c.grad.back() = NumbersOf(d);
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

namespace {

// Runs the case op by op on every rank. Each rank checks the whole values.
void ExpectEager(const GoldenCase& c, const GoldenFunction& fn, const MeshShape& mesh, const Sharding& first) {
  Sharding whole(mesh.num_axes());
  OnRanks(mesh, [&](const Runtime& runtime) {
    EagerBuilder eager(runtime, [](const std::string&, const ValueInfo&) { return Tensor(); },
                       {.random_phase = PhaseOf(c)});
    BuilderScope scope(eager);
    auto value = [&](const Tensor& x, const Sharding& placement) {
      Tensor chunk = Chunk(x, placement, mesh, runtime.coords).Clone().To(runtime.memory());
      return eager.FromLocal(chunk, x.shape(), placement, IsFloating(x.dtype()));
    };
    Vars in, cotangents;
    for (size_t i = 0; i < c.in.size(); i++) in.push_back(value(c.in[i], i == 0 ? first : whole));
    for (size_t o = 0; o < c.out.size(); o++)
      if (IsFloating(c.out[o].dtype())) cotangents.push_back(value(Cotangent(c.out[o], o), whole));
    Results results = Run(c, fn, in, cotangents);
    for (size_t o = 0; o < results.outputs.size(); o++)
      ExpectOutput(c, o, eager.ToLocal(results.outputs[o], whole).To(CpuRuntime()));
    for (size_t i = 0; i < results.gradients.size(); i++) {
      if (!HasGradient(c, i)) continue;
      const Var& d = results.gradients[i];
      ExpectGradient(c, i, d.defined() ? eager.ToLocal(d, whole).To(CpuRuntime()).ToDoubles() : Zeros(c, i));
    }
  });
}
const MeshShape kDp2Tp2{{"dp", "tp"}, {2, 2}};

}  // namespace

void ExpectEager(const GoldenCase& c, const GoldenFunction& fn) { ExpectEager(c, fn, {{"x"}, {1}}, Sharding(1)); }

void ExpectTraced(const GoldenCase& c, const GoldenFunction& fn) {
  GoldenProgram program = ProgramOf(c, fn, Sharding());
  ExpectValues(c, RunOneRank(program.graph, {{"x"}, {1}}, program.leaves));
}

void ExpectOnMesh(const GoldenCase& c, const GoldenFunction& fn) {
  GoldenProgram program = ProgramOf(c, fn, PlacementOf(c));
  ExpectValues(c, RunRanks(program.graph, kDp2Tp2, program.leaves));
  ExpectEager(c, fn, kDp2Tp2, PlacementOf(c));
}

}  // namespace weft::test
