// Sdpa and its gradient compute every option as plain f64 loops do that keep all scores.
#include "harness.h"
#include "share.h"
#include "weft/core/base/rng.h"

namespace weft::test {
namespace {

// The batch and the queries are a shard of larger ones, on which dropout depends.
constexpr int64_t B = 2, kFirstB = 1, kFirstQuery = 2;
constexpr int64_t kKey = 0x123456789abcdef, kStep = 5, kFirstRow = 3;

struct Problem {
  int64_t T, S, H, G, D, E;
  bool causal = false;
  int64_t causal_offset = 0, left = -1, right = -1;
  double softcap = 0, p = 0;
  Shape mask{}, bias{};
  bool sinks = false, offsets = false, segments = false;
};

Box HeadsBox(Rng& rng, DType dtype, int64_t rows, int64_t heads, int64_t size, int64_t first_row, bool filled) {
  Box box(dtype, {B, rows, heads, size}, RandomPadding(rng, 4), {kFirstB, first_row, 0, 0},
          {kFirstB + B + 1, first_row + rows + first_row, heads, size});
  std::normal_distribution<double> normal;
  for (int64_t i = 0; filled && i < box.count(); i++) box.Set(i, normal(rng));
  return box;
}
Box ScalarBox(int64_t value) {
  Box box(DType::kI64, {});
  box.Set(0, double(value));
  return box;
}

// The boxes of a problem, and the further operands in the order of the op.
struct Tensors {
  const Problem& p;
  Box q, k, v, out, lse, dout, dq, dk, dv;
  Box mask, bias, sinks, offsets, of_queries, of_keys, step, first_row, dsinks, dbias;
  Attrs attrs;
  std::vector<const Box*> further;

  Tensors(Rng& rng, const Problem& c, DType dtype)
      : p(c),
        q(HeadsBox(rng, dtype, c.T, c.H, c.D, kFirstQuery, true)),
        k(HeadsBox(rng, dtype, c.S, c.G, c.D, 0, true)),
        v(HeadsBox(rng, dtype, c.S, c.G, c.E, 0, true)),
        out(HeadsBox(rng, dtype, c.T, c.H, c.E, kFirstQuery, false)),
        lse(PaddedBox(rng, AccumulateType(dtype), {B, c.T, c.H})),
        dout(HeadsBox(rng, dtype, c.T, c.H, c.E, kFirstQuery, true)),
        dq(HeadsBox(rng, dtype, c.T, c.H, c.D, kFirstQuery, false)),
        dk(HeadsBox(rng, dtype, c.S, c.G, c.D, 0, false)),
        dv(HeadsBox(rng, dtype, c.S, c.G, c.E, 0, false)),
        mask(RandomBox(rng, DType::kBool, c.mask, 0, 2)),
        bias(RandomBox(rng, dtype, c.bias)),
        sinks(RandomBox(rng, dtype, {c.H})),
        offsets(RandomBox(rng, DType::kI64, {B}, -4, 4)),
        of_queries(RandomBox(rng, DType::kI64, {B, c.T}, -1, 2)),
        of_keys(RandomBox(rng, DType::kI64, {B, c.S}, -1, 2)),
        step(ScalarBox(kStep)),
        first_row(ScalarBox(kFirstRow)),
        dsinks(dtype, {c.H}),
        dbias(dtype, c.bias) {
    attrs = {{"causal", c.causal}, {"causal_offset", c.causal_offset}, {"scale", 0.4}};
    if (c.left >= 0) attrs.Set({"left", c.left});
    if (c.right >= 0) attrs.Set({"right", c.right});
    if (c.softcap > 0) attrs.Set({"softcap", c.softcap});
    if (c.p > 0) attrs.Set({"p", c.p}), attrs.Set({"key", kKey});
    Add("mask", !c.mask.empty(), {&mask});
    Add("bias", !c.bias.empty(), {&bias});
    Add("sinks", c.sinks, {&sinks});
    Add("offsets", c.offsets, {&offsets});
    Add("segments", c.segments, {&of_queries, &of_keys});
    if (c.p > 0) further.insert(further.end(), {&step, &first_row});
    for (int64_t j = 0; !c.mask.empty() && j < c.S; j++) mask.Set(j, 0);  // a row that sees nothing
  }
  void Add(AttrName<int64_t> flag, bool used, std::vector<const Box*> boxes) {
    if (!used) return;
    attrs.Set({flag, 1});
    further.insert(further.end(), boxes.begin(), boxes.end());
  }
  void Run() {
    std::vector<const Box*> in{&q, &k, &v};
    in.insert(in.end(), further.begin(), further.end());
    RunKernel(Op::kSdpa, attrs, in, {&out, &lse});
    in = {&q, &k, &v, &out, &lse, &dout};
    in.insert(in.end(), further.begin(), further.end());
    std::vector<Box*> results{&dq, &dk, &dv};
    if (p.sinks) results.push_back(&dsinks);
    if (!p.bias.empty()) results.push_back(&dbias);
    RunKernel(Op::kSdpaGrad, attrs, in, results);
  }
};

class Naive {
 public:
  Naive(const Problem& problem, const Tensors& tensors)
      : p(problem), t(tensors), q(t.q.All()), k(t.k.All()), v(t.v.All()), dout(t.dout.All()) {
    out.resize(dout.size()), lse.resize(size_t(t.lse.count()));
    dq.resize(q.size()), dk.resize(k.size()), dv.resize(v.size());
    dsinks.resize(size_t(p.H)), dbias.resize(size_t(t.dbias.count()));
    for (int64_t b = 0; b < B; b++)
      for (int64_t h = 0; h < p.H; h++)
        for (int64_t i = 0; i < p.T; i++) Row(b, h, i);
  }
  Values out, lse, dq, dk, dv, dsinks, dbias;

 private:
  size_t ScoreAt(const Shape& s, int64_t b, int64_t h, int64_t i, int64_t j) const {
    auto index = [&](size_t d, int64_t x) { return s[d] == 1 ? 0 : x; };
    return size_t(((index(0, b) * s[1] + index(1, h)) * s[2] + index(2, i)) * s[3] + j);
  }
  bool Sees(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t at = i + kFirstQuery + p.causal_offset + (p.offsets ? int64_t(t.offsets.Get(b)) : 0);
    if (p.causal && j > at) return false;
    if (p.left >= 0 && j < at - p.left) return false;
    if (p.right >= 0 && j > at + p.right) return false;
    if (!p.mask.empty() && t.mask.Get(int64_t(ScoreAt(p.mask, b, h, i, j))) == 0) return false;
    double of_key = t.of_keys.Get(b * p.S + j);
    return !p.segments || (of_key >= 0 && of_key == t.of_queries.Get(b * p.T + i));
  }
  double Factor(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (p.p == 0) return 1;
    int64_t queries = t.q.view.dim(1).global, row = (kFirstRow + kFirstB + b) * p.H + h;
    row = row * queries + kFirstQuery + i;
    int64_t block = row * ((p.S + kDropoutWords - 1) / kDropoutWords) + j / kDropoutWords, word = j % kDropoutWords;
    uint32_t lane = Philox(uint64_t(kKey), uint64_t(kStep), uint64_t(block))[size_t(word / 2)];
    return (word % 2 ? lane >> 16 : lane & 0xffff) >= DropoutThreshold(p.p) ? DropoutScale(p.p) : 0;
  }
  static double Dot(const Values& x, int64_t i, const Values& y, int64_t j, int64_t n) {
    double sum = 0;
    for (int64_t d = 0; d < n; d++) sum += x[size_t(i * n + d)] * y[size_t(j * n + d)];
    return sum;
  }
  static void AddTo(Values& y, int64_t i, double factor, const Values& x, int64_t j, int64_t n) {
    for (int64_t d = 0; d < n; d++) y[size_t(i * n + d)] += factor * x[size_t(j * n + d)];
  }
  void Row(int64_t b, int64_t h, int64_t i) {
    int64_t at = (b * p.T + i) * p.H + h;
    auto key = [&](int64_t j) { return (b * p.S + j) * p.G + h / (p.H / p.G); };
    Values w(size_t(p.S), -INFINITY), slope(size_t(p.S), 1), dp(size_t(p.S), 0);
    double sink = p.sinks ? t.sinks.Get(h) : -INFINITY, top = sink, sum = 0, delta = 0;
    for (int64_t j = 0; j < p.S; j++) {
      if (!Sees(b, h, i, j)) continue;
      double score = Dot(q, at, k, key(j), p.D) * 0.4, tangent = p.softcap > 0 ? std::tanh(score / p.softcap) : 0;
      if (p.softcap > 0) score = p.softcap * tangent, slope[size_t(j)] = 1 - tangent * tangent;
      if (!p.bias.empty()) score += t.bias.Get(int64_t(ScoreAt(p.bias, b, h, i, j)));
      w[size_t(j)] = score, top = std::max(top, score);
    }
    if (top == -INFINITY) {
      lse[size_t(at)] = -INFINITY;
      return;
    }
    for (double score : w) sum += std::exp(score - top);
    lse[size_t(at)] = top + std::log(sum + std::exp(sink - top));
    for (int64_t j = 0; j < p.S; j++) {
      double factor = Factor(b, h, i, j);
      w[size_t(j)] = std::exp(w[size_t(j)] - lse[size_t(at)]);
      AddTo(out, at, w[size_t(j)] * factor, v, key(j), p.E);
      AddTo(dv, key(j), w[size_t(j)] * factor, dout, at, p.E);
      dp[size_t(j)] = Dot(dout, at, v, key(j), p.E) * factor;
      delta += w[size_t(j)] * dp[size_t(j)];
    }
    dsinks[size_t(h)] -= std::exp(sink - lse[size_t(at)]) * delta;
    for (int64_t j = 0; j < p.S; j++) {
      double ds = w[size_t(j)] * (dp[size_t(j)] - delta);
      if (!p.bias.empty()) dbias[ScoreAt(p.bias, b, h, i, j)] += ds;
      AddTo(dq, at, ds * slope[size_t(j)] * 0.4, k, key(j), p.D);
      AddTo(dk, key(j), ds * slope[size_t(j)] * 0.4, q, at, p.D);
    }
  }

  const Problem& p;
  const Tensors& t;
  Values q, k, v, dout;
};

// As attention_test says, gradients of 16-bit types carry the error of the rounded out, and sums over queries add up.
void Check(Rng& rng, const Problem& p, DType dtype) {
  Tensors t(rng, p, dtype);
  t.Run();
  Naive want(p, t);
  double compute = dtype == DType::kF64 ? 1e-13 : 5e-6, rounding = Epsilon(dtype), sqrt_T = std::sqrt(double(p.T) + 1);
  double spread = sqrt_T * std::sqrt(double(p.H) / double(p.G)), all = sqrt_T * std::sqrt(double(B * p.H));
  ExpectClose(t.out, want.out, compute + 1.1 * rounding);
  ExpectClose(t.lse, want.lse, compute);
  ExpectClose(t.dq, want.dq, 2 * compute + 6 * rounding, 3);
  ExpectClose(t.dk, want.dk, 2 * compute + 6 * rounding, spread + 2);
  ExpectClose(t.dv, want.dv, 2 * compute + 2 * rounding, spread + 2);
  if (p.sinks) ExpectClose(t.dsinks, want.dsinks, 2 * compute + 6 * rounding, all + 2);
  if (!p.bias.empty()) ExpectClose(t.dbias, want.dbias, 2 * compute + 6 * rounding, all + 2);
}

std::vector<Problem> Problems() {
  const int64_t T = 37, S = 141;
  return {
      {.T = T, .S = S, .H = 4, .G = 2, .D = 8, .E = 8, .causal = true, .causal_offset = 90, .left = 5},
      {.T = 5, .S = 300, .H = 2, .G = 1, .D = 33, .E = 33, .causal_offset = 150, .left = 130, .right = 3},
      {.T = T, .S = S, .H = 2, .G = 2, .D = 8, .E = 8, .causal_offset = -10, .right = 4},
      {.T = 150, .S = 9, .H = 2, .G = 2, .D = 8, .E = 8, .causal_offset = -20, .left = 0, .right = 0},
      {.T = T, .S = S, .H = 3, .G = 1, .D = 10, .E = 3, .causal = true, .causal_offset = 100, .softcap = 1.5},
      {.T = T, .S = S, .H = 4, .G = 2, .D = 3, .E = 130, .mask = {B, 1, T, S}},
      {.T = T, .S = S, .H = 4, .G = 2, .D = 8, .E = 8, .causal = true, .causal_offset = 4, .mask = {1, 4, 1, S}},
      {.T = T, .S = S, .H = 4, .G = 2, .D = 8, .E = 16, .softcap = 2, .bias = {B, 4, T, S}},
      {.T = T, .S = S, .H = 4, .G = 2, .D = 8, .E = 8, .left = 20, .right = 30, .bias = {1, 4, T, S}},
      {.T = T, .S = S, .H = 4, .G = 2, .D = 8, .E = 8, .mask = {B, 4, T, S}, .bias = {B, 1, 1, S}},
      {.T = 133, .S = S, .H = 4, .G = 2, .D = 8, .E = 8, .causal = true, .bias = {1, 1, 1, S}, .sinks = true},
      {.T = 3, .S = 5, .H = 4, .G = 1, .D = 5, .E = 7, .causal = true, .causal_offset = -4, .sinks = true},
      {.T = T, .S = S, .H = 2, .G = 1, .D = 8, .E = 8, .causal = true, .left = 40, .offsets = true, .segments = true},
      {.T = T, .S = S, .H = 2, .G = 1, .D = 8, .E = 8, .segments = true},
      {.T = T, .S = S, .H = 4, .G = 2, .D = 8, .E = 8, .causal = true, .causal_offset = 90, .p = 0.4},
      {.T = T,
       .S = S,
       .H = 4,
       .G = 2,
       .D = 9,
       .E = 11,
       .causal_offset = 60,
       .left = 100,
       .right = 50,
       .softcap = 3,
       .p = 0.3,
       .mask = {1, 1, T, S},
       .bias = {B, 1, T, S},
       .sinks = true,
       .offsets = true,
       .segments = true},
  };
}

TEST(SdpaOptions, FollowTheFormula) {
  Rng rng(43);
  size_t round = 0;
  for (DType dtype : Floats())
    for (const Problem& p : Problems()) {
      if (Skips(round)) continue;
      SCOPED_TRACE(testing::Message() << Name(dtype) << ", problem " << (round - 1) % Problems().size());
      Check(rng, p, dtype);
    }
}

}  // namespace
}  // namespace weft::test
