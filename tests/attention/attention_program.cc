#include "attention/attention_program.h"

#include <algorithm>
#include <random>

#include "weft/core/transforms/grad.h"

namespace weft::test {
namespace {

int64_t ExtentOf(const AttentionSizes& z, char label) {
  switch (label) {
    case 'b':
      return z.B;
    case 't':
      return z.T;
    case 's':
      return z.S;
    case 'h':
      return z.H;
    case 'g':
      return z.G;
    case 'd':
      return z.D;
    case 'e':
      return z.E;
    default:
      return 1;
  }
}

void Segments(SdpaOptions& o, AttentionLeaves& l) {
  o.query_segments = l("query_segments", DType::kI64, "bt");
  o.key_segments = l("key_segments", DType::kI64, "bs");
}
void Lengths(SdpaOptions& o, AttentionLeaves& l) { o.lengths = l("lengths", DType::kI64, "b"); }
void Offsets(SdpaOptions& o, AttentionLeaves& l) { o.offsets = l("offsets", DType::kI64, "b"); }
void Sinks(SdpaOptions& o, AttentionLeaves& l) { o.sinks = l.Floats("sinks", "h"); }

void AllKeys(SdpaOptions& o, AttentionLeaves&) { o.causal = false; }
template <char b, char h, char t>
void Mask(SdpaOptions& o, AttentionLeaves& l) {
  o.causal = false;
  o.mask = AttendMask(l("mask", DType::kBool, {b, h, t, 's'}));
}
template <char b, char h, char t>
void Bias(SdpaOptions& o, AttentionLeaves& l) {
  o.causal = false;
  o.bias = l.Floats("bias", {b, h, t, 's'});
}

// A window of positions around each query that is short for every length.
void Everything(SdpaOptions& o, AttentionLeaves& l) {
  o = {.causal = false, .causal_offset = 1, .scale = 0.7, .left = 9, .right = 2, .softcap = 1.5, .dropout = 0.2};
  o.mask = AttendMask(l("mask", DType::kBool, "11ts"));
  o.bias = l.Floats("bias", "1hts");
  Sinks(o, l), Offsets(o, l), Segments(o, l), Lengths(o, l);
}

// Draws a leaf: ids for integers, chosen so that some queries see no key.
Tensor DrawLeaf(const std::string& name, const AttentionLeaves::Leaf& leaf, const AttentionSizes& z, uint64_t seed) {
  if (IsFloating(leaf.dtype)) return Draw(leaf.shape, seed, leaf.dtype);
  std::mt19937_64 rng(seed);
  auto below = [&](int64_t n) { return int64_t(rng() % uint64_t(n)); };
  std::vector<double> values(size_t(NumElements(leaf.shape)));
  for (double& v : values) {
    if (leaf.dtype == DType::kBool) v = double(below(3) > 0);
    if (name.ends_with("segments")) v = double(below(4) - 1);
    if (name == "lengths") v = double(below(z.S + 1));
    if (name == "offsets") v = double(below(5) - 2);
  }
  return Tensor::FromDoubles(values, leaf.dtype, leaf.shape);
}

}  // namespace

Var AttentionLeaves::operator()(const std::string& name, DType dtype, const std::string& labels) {
  Shape shape;
  for (char label : labels) shape.push_back(ExtentOf(sizes_, label));
  all_[name] = {dtype, labels, shape};
  return weft::Leaf(name, dtype, shape, place_ ? place_(labels) : Sharding());
}

const std::vector<AttentionOption>& AttentionOptions() {
  using O = SdpaOptions&;
  using L = AttentionLeaves&;
  static const std::vector<AttentionOption> options{
      {"all keys", AllKeys},
      {"causal from the first key", [](O, L) {}},
      {"causal to the last key", [](O o, L l) { o.causal_offset = l.sizes().S - l.sizes().T; }},
      {"window to the left", [](O o, L) { o.left = 5; }},
      {"window to both sides", [](O o, L) { o.causal = false, o.left = 4, o.right = 3; }},
      {"window to the right", [](O o, L) { o.causal = false, o.right = 2; }},
      {"soft cap", [](O o, L) { o.softcap = 1.5; }},
      {"dropout", [](O o, L) { o.dropout = 0.3; }},
      {"sinks", Sinks},
      {"offsets", Offsets},
      {"segments", [](O o, L l) { AllKeys(o, l), Segments(o, l); }},
      {"lengths", [](O o, L l) { AllKeys(o, l), Lengths(o, l); }},
      {"mask [B, H, T, S]", Mask<'b', 'h', 't'>},
      {"mask [1, 1, T, S]", Mask<'1', '1', 't'>},
      {"mask [B, 1, T, S]", Mask<'b', '1', 't'>},
      {"mask [1, H, T, S]", Mask<'1', 'h', 't'>},
      {"mask [B, 1, 1, S]", Mask<'b', '1', '1'>},
      {"bias [B, H, T, S]", Bias<'b', 'h', 't'>},
      {"bias [1, 1, T, S]", Bias<'1', '1', 't'>},
      {"bias [B, 1, T, S]", Bias<'b', '1', 't'>},
      {"bias [1, H, T, S]", Bias<'1', 'h', 't'>},
      {"bias [B, 1, 1, S]", Bias<'b', '1', '1'>},
      {"everything", Everything},
  };
  return options;
}

const char* Name(AttentionPass pass) {
  return pass == AttentionPass::kForward ? "forward" : pass == AttentionPass::kBackward ? "backward" : "twice backward";
}

AttentionProgram::AttentionProgram(const AttentionOption& option, const AttentionSizes& sizes, AttentionPass pass,
                                   AttentionLeaves::Place place)
    : leaves_(sizes, std::move(place)) {
  graph_ = test::Trace([&] { return Trace(option, pass); });
}

Traced AttentionProgram::Trace(const AttentionOption& option, AttentionPass pass) {
  std::vector<std::string> names{"q", "k", "v"};
  std::vector<Var> x{leaves_.Floats("q", "bthd"), leaves_.Floats("k", "bsgd"), leaves_.Floats("v", "bsge")};
  SdpaOptions options;
  option.set(options, leaves_);
  auto add = [&](const char* name, const Var& operand) {
    if (operand.defined()) names.push_back(name), x.push_back(operand);
  };
  add("bias", options.bias);
  add("sinks", options.sinks);
  Var out = Sdpa(x[0], x[1], x[2], options);
  if (pass == AttentionPass::kForward) return {{{"out", out}}};
  Var dout = leaves_.Floats("dout", "bthe");
  std::vector<Var> d = Vjp(std::vector{out}, std::vector{dout}, x);
  std::string prefix = "d";
  if (pass == AttentionPass::kTwiceBackward) {
    std::vector<Var> cotangents;
    for (const std::string& name : names) cotangents.push_back(leaves_.Floats("c" + name, leaves().at(name).labels));
    add("out", dout);
    d = Vjp(d, cotangents, x);
    prefix = "dd";
  }
  Traced traced;
  for (size_t i = 0; i < d.size(); i++) traced.outputs.push_back({prefix + names[i], d[i]});
  return traced;
}

Values AttentionProgram::values(uint64_t seed) const {
  Values values;
  for (const auto& [name, leaf] : leaves()) values[name] = DrawLeaf(name, leaf, leaves_.sizes(), seed++);
  return values;
}

}  // namespace weft::test
