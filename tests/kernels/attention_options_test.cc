// Sdpa and its gradient compute every option as plain f64 loops do that keep all scores. On a GPU each backend runs the
// problems that it takes.
#include "harness.h"
#include "reference/loops.h"
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
  bool sinks = false, offsets = false, lengths = false, segments = false, dense = false;
  double scale = 0.4;
  int64_t documents = 0;  // > 0: segments are runs of this many tokens, 0 at first, and the last run is padding

  int64_t SegmentOf(int64_t token, int64_t tokens) const {
    bool padding = token / documents > 0 && token / documents == (tokens - 1) / documents;
    return padding ? -1 : token / documents;
  }
};

// A backend, whether products of f32 may round to TF32, and whether every run gives the same bits. The CPU has one,
// without a name.
struct Way {
  std::string backend;
  bool tf32 = false, deterministic = true;

  std::string name() const { return backend + (tf32 ? " TF32" : "") + (deterministic ? "" : ", in any order"); }
};
bool OnGpu() { return KindUnderTest() == DeviceKind::kCuda; }
std::vector<Way> Ways(DType dtype) {
  if (!OnGpu()) return {{""}};
  std::vector<Way> ways{{"cudnn"}, {"flash"}, {"plain"}};
  if (dtype == DType::kF32) ways.push_back({.backend = "flash", .tf32 = true});
  if (SizeOf(dtype) == 2)
    for (const char* backend : {"cudnn", "flash"}) ways.push_back({.backend = backend, .deterministic = false});
  return ways;
}
// While alive, makes the backend of `way` the first choice.
class Prefer {
 public:
  explicit Prefer(const Way& way) {
    SharedContext().set_numerics({.deterministic = way.deterministic, .tf32 = way.tf32, .attention = way.backend});
  }
  ~Prefer() { SharedContext().set_numerics({}); }
};

// `dense`: the elements of a head have no padding, as the kernels for tensor cores require.
Box HeadsBox(Rng& rng, DType dtype, int64_t rows, int64_t heads, int64_t size, int64_t first_row, bool filled,
             bool dense) {
  Shape padding = RandomPadding(rng, 4);
  if (dense) padding[3] = 0;
  Box box(dtype, {B, rows, heads, size}, padding, {kFirstB, first_row, 0, 0},
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
  Box mask, bias, sinks, offsets, lengths, of_queries, of_keys, step, first_row, dsinks, dbias;
  Attrs attrs;
  std::vector<const Box*> further;

  Tensors(Rng& rng, const Problem& c, DType dtype)
      : p(c),
        q(HeadsBox(rng, dtype, c.T, c.H, c.D, kFirstQuery, true, c.dense)),
        k(HeadsBox(rng, dtype, c.S, c.G, c.D, 0, true, c.dense)),
        v(HeadsBox(rng, dtype, c.S, c.G, c.E, 0, true, c.dense)),
        out(HeadsBox(rng, dtype, c.T, c.H, c.E, kFirstQuery, false, c.dense)),
        lse(PaddedBox(rng, AccumulateType(dtype), {B, c.T, c.H})),
        dout(HeadsBox(rng, dtype, c.T, c.H, c.E, kFirstQuery, true, c.dense)),
        dq(HeadsBox(rng, dtype, c.T, c.H, c.D, kFirstQuery, false, c.dense)),
        dk(HeadsBox(rng, dtype, c.S, c.G, c.D, 0, false, c.dense)),
        dv(HeadsBox(rng, dtype, c.S, c.G, c.E, 0, false, c.dense)),
        mask(RandomBox(rng, DType::kBool, c.mask, 0, 2)),
        bias(RandomBox(rng, dtype, c.bias)),
        sinks(RandomBox(rng, dtype, {c.H})),
        offsets(RandomBox(rng, DType::kI64, {B}, -4, 4)),
        lengths(RandomBox(rng, DType::kI64, {B}, -1, int(c.S) + 2)),
        of_queries(RandomBox(rng, DType::kI64, {B, c.T}, -1, 2)),
        of_keys(RandomBox(rng, DType::kI64, {B, c.S}, -1, 2)),
        step(ScalarBox(kStep)),
        first_row(ScalarBox(kFirstRow)),
        dsinks(dtype, {c.H}),
        dbias(dtype, c.bias) {
    attrs = {{"causal", c.causal}, {"causal_offset", c.causal_offset}, {"scale", c.scale}};
    if (c.left >= 0) attrs.Set({"left", c.left});
    if (c.right >= 0) attrs.Set({"right", c.right});
    if (c.softcap > 0) attrs.Set({"softcap", c.softcap});
    if (c.p > 0) attrs.Set({"p", c.p}), attrs.Set({"key", kKey});
    Add("mask", !c.mask.empty(), {&mask});
    Add("bias", !c.bias.empty(), {&bias});
    Add("sinks", c.sinks, {&sinks});
    Add("offsets", c.offsets, {&offsets});
    Add("lengths", c.lengths, {&lengths});
    Add("segments", c.segments, {&of_queries, &of_keys});
    if (c.p > 0) further.insert(further.end(), {&step, &first_row});
    for (int64_t j = 0; !c.mask.empty() && j < c.S; j++) mask.Set(j, 0);  // a row that sees nothing
    for (int64_t i = 0; c.documents > 0 && i < B * c.T; i++) of_queries.Set(i, double(c.SegmentOf(i % c.T, c.T)));
    for (int64_t j = 0; c.documents > 0 && j < B * c.S; j++) of_keys.Set(j, double(c.SegmentOf(j % c.S, c.S)));
  }
  void Add(AttrName<int64_t> flag, bool used, std::vector<const Box*> boxes) {
    if (!used) return;
    attrs.Set({flag, 1});
    further.insert(further.end(), boxes.begin(), boxes.end());
  }
  std::vector<const Box*> Inputs(Op op) const {
    std::vector<const Box*> in{&q, &k, &v};
    if (op == Op::kSdpaGrad) in.insert(in.end(), {&out, &lse, &dout});
    in.insert(in.end(), further.begin(), further.end());
    return in;
  }
  std::vector<Box*> Outputs(Op op) {
    if (op == Op::kSdpa) return {&out, &lse};
    std::vector<Box*> results{&dq, &dk, &dv};
    if (p.sinks) results.push_back(&dsinks);
    if (!p.bias.empty()) results.push_back(&dbias);
    return results;
  }
  // Returns whether the backend runs the op if it is asked first.
  bool RunsBy(const std::string& backend, Op op) {
    const KernelRow& row = Table().Row(op);
    if (!OnGpu()) return true;
    std::vector<TensorView> in, results;
    for (const Box* box : Inputs(op)) in.push_back(box->view);
    for (const Box* box : Outputs(op)) results.push_back(box->view);
    std::string answer = row.explain({&attrs, in, results, nullptr, 0, &SharedContext(), nullptr});
    return answer == backend || answer == backend + " in one pass";
  }
  void Run() {
    for (Op op : {Op::kSdpa, Op::kSdpaGrad}) {
      for (Box* box : Outputs(op))
        for (int64_t i = 0; i < box->count(); i++) box->Set(i, NAN);
      RunKernel(op, attrs, Inputs(op), Outputs(op));
    }
  }
};

class Naive {
 public:
  Naive(const Problem& problem, const Tensors& tensors)
      : p(problem), t(tensors), q(t.q.All()), k(t.k.All()), v(t.v.All()), dout(t.dout.All()) {
    out.resize(dout.size()), terms.resize(dout.size()), lse.resize(size_t(t.lse.count()));
    dq.resize(q.size()), dk.resize(k.size()), dv.resize(v.size());
    dsinks.resize(size_t(p.H)), dbias.resize(size_t(t.dbias.count()));
    for (int64_t b = 0; b < B; b++)
      for (int64_t h = 0; h < p.H; h++)
        for (int64_t i = 0; i < p.T; i++) Row(b, h, i);
  }
  Values out, lse, dq, dk, dv, dsinks, dbias;
  Values terms;  // the sums of the absolute terms of out

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
    if (p.lengths && j >= int64_t(t.lengths.Get(b))) return false;
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
  // Element i of tensors whose elements are vectors of n numbers.
  static double* At(Values& x, int64_t i, int64_t n) { return x.data() + i * n; }
  static const double* At(const Values& x, int64_t i, int64_t n) { return x.data() + i * n; }
  void Row(int64_t b, int64_t h, int64_t i) {
    int64_t at = (b * p.T + i) * p.H + h;
    auto key = [&](int64_t j) { return (b * p.S + j) * p.G + h / (p.H / p.G); };
    Values w(size_t(p.S), -INFINITY), slope(size_t(p.S), 1), dp(size_t(p.S), 0);
    double sink = p.sinks ? t.sinks.Get(h) : -INFINITY, top = sink, sum = 0, delta = 0;
    for (int64_t j = 0; j < p.S; j++) {
      if (!Sees(b, h, i, j)) continue;
      double score = Dot(At(q, at, p.D), At(k, key(j), p.D), p.D) * p.scale,
             tangent = p.softcap > 0 ? std::tanh(score / p.softcap) : 0;
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
      const double *value = At(v, key(j), p.E), *gradient = At(dout, at, p.E);
      AddScaled(At(out, at, p.E), w[size_t(j)] * factor, value, p.E);
      AddMagnitudes(At(terms, at, p.E), w[size_t(j)] * factor, value, p.E);
      AddScaled(At(dv, key(j), p.E), w[size_t(j)] * factor, gradient, p.E);
      dp[size_t(j)] = Dot(gradient, value, p.E) * factor;
      delta += w[size_t(j)] * dp[size_t(j)];
    }
    dsinks[size_t(h)] -= std::exp(sink - lse[size_t(at)]) * delta;
    for (int64_t j = 0; j < p.S; j++) {
      double ds = w[size_t(j)] * (dp[size_t(j)] - delta);
      if (!p.bias.empty()) dbias[ScoreAt(p.bias, b, h, i, j)] += ds;
      ds *= slope[size_t(j)] * p.scale;
      AddScaled(At(dq, at, p.D), ds, At(k, key(j), p.D), p.D);
      AddScaled(At(dk, key(j), p.D), ds, At(q, at, p.D), p.D);
    }
  }

  const Problem& p;
  const Tensors& t;
  Values q, k, v, dout;
};

// A kernel may round each probability to a 16-bit type before it weighs a value, and rounds the sum once more. Epsilon
// is the largest relative error of a rounding.
void CheckOut(const Tensors& t, double compute, double rounding, const Naive& want) {
  for (int64_t i = 0; i < t.out.count(); i++) {
    double got = t.out.Get(i), exact = want.out[size_t(i)], terms = want.terms[size_t(i)];
    ASSERT_LE(std::abs(got - exact), compute * (std::abs(exact) + 1) + 1.01 * rounding * (terms + std::abs(exact)))
        << "element " << i << " of out: got " << got << ", want " << exact << ", terms " << terms;
  }
}

// As attention_test says, gradients of 16-bit types carry the error of the rounded out, and sums over queries add up.
// TF32's bound is that of attention_test.
void CheckResults(const Tensors& t, const Problem& p, DType dtype, bool tf32, const Naive& want) {
  double compute = dtype == DType::kF64 ? 1e-13 : tf32 ? 4 * 0x1p-11 : 5e-6, rounding = Epsilon(dtype);
  double sqrt_T = std::sqrt(double(p.T) + 1), all = sqrt_T * std::sqrt(double(B * p.H));
  double spread = sqrt_T * std::sqrt(double(p.H) / double(p.G));
  CheckOut(t, compute, rounding, want);
  ExpectClose(t.lse, want.lse, compute);
  ExpectClose(t.dq, want.dq, 2 * compute + 6 * rounding, 3);
  ExpectClose(t.dk, want.dk, 2 * compute + 6 * rounding, spread + 2);
  ExpectClose(t.dv, want.dv, 2 * compute + 2 * rounding, spread + 2);
  if (p.sinks) ExpectClose(t.dsinks, want.dsinks, 2 * compute + 6 * rounding, all + 2);
  if (!p.bias.empty()) ExpectClose(t.dbias, want.dbias, 2 * compute + 6 * rounding, all + 2);
}

bool FlashTakes(const Problem& p, DType dtype) {
  return p.E == p.D && (dtype == DType::kF32 || (SizeOf(dtype) == 2 && p.D % 8 == 0));
}

void Check(Rng& rng, const Problem& p, DType dtype) {
  Tensors t(rng, p, dtype);
  Naive want(p, t);
  for (const Way& way : Ways(dtype)) {
    SCOPED_TRACE(way.name());
    Prefer prefer(way);
    bool takes = t.RunsBy(way.backend, Op::kSdpa);
    // Rows with padding of a random size may be aligned or not, operand by operand.
    if (way.backend == "flash" && (p.dense || SizeOf(dtype) != 2)) {
      EXPECT_EQ(takes, FlashTakes(p, dtype));
      EXPECT_EQ(t.RunsBy(way.backend, Op::kSdpaGrad), takes);
    }
    if (!takes) continue;
    t.Run();
    CheckResults(t, p, dtype, way.tf32, want);
  }
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
      {.T = T,
       .S = S,
       .H = 4,
       .G = 2,
       .D = 8,
       .E = 8,
       .causal = true,
       .causal_offset = 60,
       .left = 80,
       .lengths = true},
      {.T = 50, .S = 50, .H = 4, .G = 2, .D = 8, .E = 8, .lengths = true, .dense = true},
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
       .lengths = true,
       .segments = true},
  };
}

// Draws lengths around the borders of tiles, windows narrower and wider than a tile, segments that begin inside of one,
// and any set of the options that flash takes.
Problem DrawTiled(Rng& rng, int64_t D) {
  const std::vector<int64_t> lengths{1, 63, 64, 65, 127, 128, 129, 300};
  auto often = [&] { return Pick(rng, 0, 2) == 0; };
  Problem p{.T = PickOf(rng, lengths), .S = PickOf(rng, lengths), .H = 2, .G = Pick(rng, 1, 2), .D = D, .E = D};
  p.dense = true, p.scale = 1 / std::sqrt(double(D));
  p.causal = Pick(rng, 0, 1);
  p.causal_offset = PickOf<int64_t>(rng, {0, p.S - p.T - kFirstQuery, -7, 40});
  if (often()) p.left = PickOf<int64_t>(rng, {0, 5, 64, 100});
  if (often() && !p.causal) p.right = PickOf<int64_t>(rng, {0, 3, 70});
  if (often()) p.segments = true, p.documents = PickOf<int64_t>(rng, {0, 50, 64, 130});
  if (often()) p.mask = PickOf<Shape>(rng, {{B, 1, 1, p.S}, {1, p.H, p.T, p.S}});
  if (Pick(rng, 0, 5) == 0) p.bias = PickOf<Shape>(rng, {{1, 1, p.T, p.S}, {B, p.H, 1, p.S}});
  if (often()) p.softcap = 2;
  p.sinks = often(), p.offsets = often(), p.lengths = often();
  if (often()) p.p = 0.3;
  return p;
}

// One option at a time over several tiles: whole tiles are skipped, and inside of a window none is masked.
std::vector<Problem> LongProblems() {
  Problem base{.T = 1000, .S = 1000, .H = 2, .G = 1, .D = 64, .E = 64, .causal = true, .causal_offset = -kFirstQuery};
  base.dense = true, base.scale = 0.125;
  std::vector<Problem> problems(9, base);
  problems[0].left = 20;
  problems[1].left = 300;
  problems[2].causal = false, problems[2].left = 200, problems[2].right = 150;
  problems[3].segments = true, problems[3].documents = 190;
  problems[4].causal = false, problems[4].segments = true, problems[4].documents = 400;  // the last 200 are padding
  problems[5].causal = false, problems[5].mask = {B, 1, 1, base.S};
  problems[6].left = 255, problems[6].p = 0.2;
  problems[7].causal = false, problems[7].lengths = true;
  problems[8].lengths = true;
  return problems;
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

TEST(SdpaOptions, HoldAtTheBordersOfTiles) {
  Rng rng(44);
  size_t round = 0;
  for (int draw = 0; draw < (OnGpu() ? 12 : 2); draw++)
    for (DType dtype : Floats())
      for (int64_t D : {8, 64, 96, 128, 256}) {
        if (Skips(round)) continue;
        Problem p = DrawTiled(rng, D);
        SCOPED_TRACE(testing::Message() << Name(dtype) << " D=" << D << " T=" << p.T << " S=" << p.S << ", problem "
                                        << round - 1);
        Check(rng, p, dtype);
      }
}

TEST(SdpaOptions, HoldOverManyTiles) {
  Rng rng(45);
  size_t round = 0;
  for (DType dtype : OnGpu() ? Floats() : std::vector<DType>{DType::kF32})
    for (const Problem& p : LongProblems()) {
      if (Skips(round)) continue;
      SCOPED_TRACE(testing::Message() << Name(dtype) << ", problem " << (round - 1) % LongProblems().size());
      Check(rng, p, dtype);
    }
}

// Few queries, whose keys several blocks share on a GPU: groups of up to 9 heads, and lengths around the parts.
Problem DrawFewQueries(Rng& rng, int64_t D) {
  auto often = [&] { return Pick(rng, 0, 2) == 0; };
  Problem p = DrawTiled(rng, D);
  p.T = PickOf<int64_t>(rng, {1, 1, 2, 8, 9}), p.S = PickOf<int64_t>(rng, {1, 63, 64, 65, 127, 500, 1000});
  p.G = Pick(rng, 1, 2), p.H = p.G * PickOf<int64_t>(rng, {1, 2, 4, 7, 9});
  p.causal_offset = PickOf<int64_t>(rng, {0, p.S - p.T - kFirstQuery, p.S / 2, -7});
  p.mask.clear(), p.bias.clear();
  if (often()) p.mask = PickOf<Shape>(rng, {{B, 1, 1, p.S}, {1, p.H, p.T, p.S}});
  if (often()) p.bias = PickOf<Shape>(rng, {{1, 1, p.T, p.S}, {B, p.H, 1, p.S}});
  return p;
}

TEST(SdpaOptions, HoldForFewQueries) {
  Rng rng(46);
  size_t round = 0;
  for (int draw = 0; draw < (OnGpu() ? 8 : 3); draw++)
    for (DType dtype : Floats())
      for (int64_t D : {8, 64, 80, 128, 200, 256}) {
        if (Skips(round)) continue;
        Problem p = DrawFewQueries(rng, D);
        SCOPED_TRACE(testing::Message() << Name(dtype) << " D=" << D << " T=" << p.T << " S=" << p.S << " H=" << p.H
                                        << " G=" << p.G << ", problem " << round - 1);
        Check(rng, p, dtype);
      }
}

// Runs the kernel again and again: blocks finish in any order, and the last one joins them.
TEST(SdpaOptions, FewQueriesHaveTheSameBitsInEveryRun) {
  Rng rng(47);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Problem p{.T = 1, .S = 1000, .H = 4, .G = 2, .D = 64, .E = 64, .causal = true, .causal_offset = 900};
    p.dense = p.offsets = true;
    Tensors t(rng, p, dtype);
    RunKernel(Op::kSdpa, t.attrs, t.Inputs(Op::kSdpa), t.Outputs(Op::kSdpa));
    Values first = t.out.All();
    for (int run = 0; run < 20; run++) {
      RunKernel(Op::kSdpa, t.attrs, t.Inputs(Op::kSdpa), t.Outputs(Op::kSdpa));
      ASSERT_EQ(t.out.All(), first) << Name(dtype) << " run " << run;
    }
  }
}

}  // namespace
}  // namespace weft::test
