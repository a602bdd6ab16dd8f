// Sdpa, its gradient and Rope agree with plain f64 loops that keep all scores.
#include <numbers>

#include "harness.h"
#include "reference/loops.h"
#include "share.h"
#include "weft/core/ops/attention.h"

namespace weft::test {
namespace {

struct Problem {
  int64_t B, T, S, H, G, D;
  bool causal;
  int64_t causal_offset;
  int64_t first_query = 0, first_head = 0, global_heads = 0, first_kv = 0,
          global_kv = 0;     // for shards; 0 heads: not sharded
  bool dense_heads = false;  // no padding after the elements of a head, as the kernels for tensor cores require
};

struct Tensors {
  Box q, k, v, out, lse, dout, dq, dk, dv;
  Tensors(Rng& rng, const Problem& p, DType dtype)
      : q(Make(rng, p, dtype, p.T, true)),
        k(Make(rng, p, dtype, p.S, false)),
        v(Make(rng, p, dtype, p.S, false)),
        out(Make(rng, p, dtype, p.T, true, false)),
        lse(PaddedBox(rng, dtype == DType::kF64 ? DType::kF64 : DType::kF32, {p.B, p.T, p.H})),
        dout(Make(rng, p, dtype, p.T, true)),
        dq(Make(rng, p, dtype, p.T, true, false)),
        dk(Make(rng, p, dtype, p.S, false, false)),
        dv(Make(rng, p, dtype, p.S, false, false)) {}

  static Box Make(Rng& rng, const Problem& p, DType dtype, int64_t length, bool query, bool filled = true) {
    int64_t heads = query ? p.H : p.G, first = query ? p.first_head : p.first_kv,
            all = query ? p.global_heads : p.global_kv;
    int64_t row = query ? p.first_query : 0;
    Shape padding = RandomPadding(rng, 4);
    if (p.dense_heads) padding[3] = 0;
    Box box(dtype, {p.B, length, heads, p.D}, padding, {0, row, first, 0}, {p.B, row + length, all ? all : heads, p.D});
    std::normal_distribution<double> normal;
    for (int64_t i = 0; filled && i < box.count(); i++) box.Set(i, normal(rng));
    return box;
  }
};

struct Answer {
  Values out, lse, dq, dk, dv;
};

Answer Naive(const Problem& p, const Tensors& t) {
  Values q = t.q.All(), k = t.k.All(), v = t.v.All(), dout = t.dout.All();
  Answer r{Values(q.size()), Values(size_t(p.B * p.T * p.H)), Values(q.size()), Values(k.size()), Values(k.size())};
  double scale = 1 / std::sqrt(double(p.D));
  int64_t group = t.q.view.dim(2).global / t.k.view.dim(2).global;
  for (int64_t b = 0; b < p.B; b++)
    for (int64_t h = 0; h < p.H; h++)
      for (int64_t i = 0; i < p.T; i++) {
        int64_t g = (h + p.first_head) / group - p.first_kv;
        const int64_t qi = ((b * p.T + i) * p.H + h) * p.D;
        auto kj = [&](int64_t j) { return ((b * p.S + j) * p.G + g) * p.D; };
        int64_t seen = p.causal ? std::clamp<int64_t>(i + p.first_query + p.causal_offset + 1, 0, p.S) : p.S;
        Values s(static_cast<size_t>(seen)), dp(s.size());
        double top = -INFINITY, sum = 0, delta = 0;
        for (int64_t j = 0; j < seen; j++) {
          s[size_t(j)] = Dot(q.data() + qi, k.data() + kj(j), p.D) * scale;
          top = std::max(top, s[size_t(j)]);
        }
        for (double value : s) sum += std::exp(value - top);
        r.lse[size_t(qi / p.D)] = seen ? top + std::log(sum) : -INFINITY;
        for (int64_t j = 0; j < seen; j++) {
          double& w = s[size_t(j)];
          w = std::exp(w - top) / sum;
          AddScaled(r.out.data() + qi, w, v.data() + kj(j), p.D);
          AddScaled(r.dv.data() + kj(j), w, dout.data() + qi, p.D);
          dp[size_t(j)] = Dot(dout.data() + qi, v.data() + kj(j), p.D);
          delta += w * dp[size_t(j)];
        }
        for (int64_t j = 0; j < seen; j++) {
          double ds = s[size_t(j)] * (dp[size_t(j)] - delta) * scale;
          AddScaled(r.dq.data() + qi, ds, k.data() + kj(j), p.D);
          AddScaled(r.dk.data() + kj(j), ds, q.data() + qi, p.D);
        }
      }
  return r;
}

// While alive, sets whether products of f32 may round their factors to TF32.
class AllowTf32 {
 public:
  explicit AllowTf32(bool allow) { SharedContext().set_numerics({.tf32 = allow}); }
  ~AllowTf32() { SharedContext().set_numerics({}); }
};

// TF32 has 11 significant bits, so rounding a factor has a relative error of up to 2^-11. A score sums D products of
// standard normal values and is divided by sqrt(D). Its error is about 2^-11 / 2 on average, and 4 times that in the
// worst of many. That is also the relative error of a probability. Rounding the probability and v adds as much again.
constexpr double kTf32 = 4 * 0x1p-11;

void Check(const Problem& p, Tensors& t, DType dtype, bool tf32) {
  SCOPED_TRACE(testing::Message() << (tf32 ? "tf32" : Name(dtype)) << " B=" << p.B << " T=" << p.T << " S=" << p.S
                                  << " H=" << p.H << " G=" << p.G << " D=" << p.D << " causal=" << p.causal
                                  << " offset=" << p.causal_offset);
  Attrs attrs{{"causal", p.causal}, {"causal_offset", p.causal_offset}, {"scale", 1 / std::sqrt(double(p.D))}};
  RunKernel(Op::kSdpa, attrs, {&t.q, &t.k, &t.v}, {&t.out, &t.lse});
  RunKernel(Op::kSdpaGrad, attrs, {&t.q, &t.k, &t.v, &t.out, &t.lse, &t.dout}, {&t.dq, &t.dk, &t.dv});
  Answer want = Naive(p, t);
  // Scores are sums of D products of size 1; gradients of keys sum over all T * group queries. 16-bit results round
  // once. But delta is computed from the rounded out, and the gradients carry that error.
  double compute = dtype == DType::kF64 ? 1e-14
                   : tf32               ? kTf32
                                        : 2e-6,
         rounding = Epsilon(dtype), spread = std::sqrt(double(p.T * p.H / p.G) + 1);
  ExpectClose(t.out, want.out, compute + 1.1 * rounding);
  ExpectClose(t.lse, want.lse, compute);
  ExpectClose(t.dq, want.dq, 2 * compute + 6 * rounding, 2);
  ExpectClose(t.dk, want.dk, 2 * compute + 6 * rounding, spread + 1);
  ExpectClose(t.dv, want.dv, 2 * compute + 2 * rounding, spread + 1);
}

void Check(Rng& rng, const Problem& p, DType dtype, bool tf32 = false) {
  AllowTf32 allow(tf32);
  Tensors t(rng, p, dtype);
  Check(p, t, dtype, tf32);
}

TEST(Sdpa, ForwardAndBackwardFollowTheFormula) {
  Rng rng(41);
  size_t round = 0;
  for (DType dtype : {DType::kF64, DType::kF32})
    for (int64_t T : {1, 5, 64, 129})
      for (int64_t D : {8, 64, 80})
        for (int64_t group : {1, 2, 4})
          for (bool causal : {false, true})
            if (!Skips(round)) Check(rng, {2, T, T, 4, 4 / group, D, causal, 0}, dtype);
}

TEST(Sdpa, OtherLengthsOffsetsAndOddSizes) {
  Rng rng(42);
  for (DType dtype : {DType::kF64, DType::kF32})
    for (bool causal : {false, true})
      for (auto [T, S, offset] : std::vector<std::array<int64_t, 3>>{{1, 70, 69},
                                                                     {5, 9, 4},
                                                                     {33, 100, 67},
                                                                     {70, 33, 0},
                                                                     {129, 64, -70},
                                                                     {64, 64, -64},
                                                                     {7, 0, 0},
                                                                     {0, 7, 0},
                                                                     {40, 130, 31},
                                                                     {50, 20, -1000}})
        for (int64_t D : {1, 7, 24}) Check(rng, {1, T, S, 2, 1, D, causal, offset}, dtype);
}

TEST(Sdpa, NarrowTypes) {
  Rng rng(43);
  for (DType dtype : {DType::kBF16, DType::kF16})
    for (int64_t T : {1, 5, 64, 129})
      for (int64_t D : {8, 80}) Check(rng, {2, T, T, 4, 2, D, true, 0}, dtype);
}

TEST(Sdpa, NarrowTypesAcrossTiles) {
  Rng rng(47);
  size_t round = 0;
  for (DType dtype : {DType::kBF16, DType::kF16})
    for (Problem p : std::vector<Problem>{{1, 1, 1, 1, 1, 64, true, 0},
                                          {2, 128, 128, 2, 2, 64, true, 0},
                                          {1, 200, 200, 4, 1, 64, true, 0},
                                          {1, 127, 129, 2, 1, 64, false, 0},
                                          {1, 70, 200, 2, 2, 128, true, 130},
                                          {1, 200, 70, 2, 1, 64, true, -90},
                                          {2, 129, 129, 2, 1, 96, true, 0},
                                          {1, 130, 67, 2, 1, 128, true, 0},
                                          {1, 140, 190, 1, 1, 128, false, 0},
                                          {1, 128, 256, 2, 1, 128, true, 128},
                                          {1, 70, 130, 2, 1, 256, true, 20},
                                          {1, 40, 40, 1, 1, 192, false, 0},
                                          {1, 33, 65, 2, 1, 40, true, 32},
                                          // Query heads 3..5 of 8, KV heads 1..2 of 4, queries from 30 to 89.
                                          {1, 60, 90, 3, 2, 64, true, 0, 30, 3, 8, 1, 4}}) {
      if (Skips(round)) continue;
      p.dense_heads = true;
      Check(rng, p, dtype);
    }
}

// A GPU pads head sizes to 64, 128 or 256, and copies a row element by element if it is not aligned.
TEST(Sdpa, F32OfEveryHeadSize) {
  Rng rng(50);
  bool gpu = KindUnderTest() == DeviceKind::kCuda;
  for (int64_t D = 1; D <= 256; D += gpu ? Share() : Share() > 1 ? 17 : 5)
    for (bool tf32 : {false, true}) {
      if (tf32 && !gpu) continue;
      int64_t group = PickOf<int64_t>(rng, {1, 2, 3}), T = Pick(rng, 1, 90), S = Pick(rng, 1, 90);
      Problem p{1, T, S, group, 1, D, Pick(rng, 0, 1) == 1, PickOf<int64_t>(rng, {0, S - T, Pick(rng, -T, S)})};
      p.dense_heads = Pick(rng, 0, 1) == 1;
      Check(rng, p, DType::kF32, tf32);
    }
}

// Lengths around the tile sizes of every kernel shape. Some rows are a whole number of 16-byte vectors, others are not.
TEST(Sdpa, F32AcrossTiles) {
  Rng rng(51);
  std::vector<std::array<int64_t, 2>> lengths{{129, 127}, {128, 128}, {63, 65}, {1, 129}, {130, 16}};
  if (Share() > 1) lengths.resize(1);
  for (bool tf32 : {false, true})
    for (int64_t D : {60, 64, 126, 128, 252, 256})
      for (auto [T, S] : lengths) {
        if (tf32 && KindUnderTest() != DeviceKind::kCuda) continue;
        Problem p{.B = 2, .T = T, .S = S, .H = 2, .G = 1, .D = D, .causal = Pick(rng, 0, 2) > 0};
        p.causal_offset = PickOf<int64_t>(rng, {0, S - T});
        p.dense_heads = Pick(rng, 0, 1) == 1;
        Check(rng, p, DType::kF32, tf32);
      }
}

TEST(Sdpa, ShardsOfHeadsAndQueries) {
  Rng rng(44);
  // Query heads 2..3 of 6, and all KV heads 0..2 of 3: query head h uses KV head h / 2.
  Check(rng,
        {.B = 2,
         .T = 20,
         .S = 40,
         .H = 2,
         .G = 3,
         .D = 16,
         .causal = true,
         .causal_offset = 0,
         .first_query = 20,
         .first_head = 2,
         .global_heads = 6,
         .first_kv = 0,
         .global_kv = 3},
        DType::kF64);
  // Heads sharded the same way: query heads 3..5 of 6, KV head 1 of 2.
  Check(rng,
        {.B = 1,
         .T = 20,
         .S = 20,
         .H = 3,
         .G = 1,
         .D = 16,
         .causal = true,
         .causal_offset = 0,
         .first_query = 0,
         .first_head = 3,
         .global_heads = 6,
         .first_kv = 1,
         .global_kv = 2},
        DType::kF64);
  // Query heads 3..5 of 8, KV heads 1..2 of 4, queries from 30 to 89.
  Check(rng, {1, 60, 90, 3, 2, 64, true, 0, 30, 3, 8, 1, 4}, DType::kF32);
}

TEST(Sdpa, LargeScoresDoNotOverflow) {
  Rng rng(45);
  Problem p{1, 70, 70, 1, 1, 8, true, 0};
  Tensors t(rng, p, DType::kF32);
  for (int64_t i = 0; i < t.q.count(); i++) t.q.Set(i, t.q.Get(i) * 1000);
  Attrs attrs{{"causal", 1}, {"causal_offset", 0}, {"scale", 0.0}};
  RunKernel(Op::kSdpa, attrs, {&t.q, &t.k, &t.v}, {&t.out, &t.lse});
  Answer want = Naive(p, t);
  ExpectClose(t.out, want.out, 5e-3);  // scores near 3000 bring an f32 error of 2e-4 into the exponent
  ExpectClose(t.lse, want.lse, 1e-6);
}

// The scores of all keys are near -128, so those of keys after the last one, which tiles fill with 0, would have
// probabilities of infinity. Their gradients must not reach those of queries.
TEST(Sdpa, AllScoresMayBeLow) {
  Rng rng(52);
  bool gpu = KindUnderTest() == DeviceKind::kCuda;
  for (DType dtype : {DType::kBF16, DType::kF16})
    for (int64_t D : {64, 80, 128})
      for (bool deterministic : {true, false})
        for (const char* backend : {"", "flash"}) {
          if (*backend && !gpu) continue;
          Problem p{1, 70, 129, 2, 1, D, false, 0};
          p.dense_heads = true;
          Tensors t(rng, p, dtype);
          for (int64_t i = 0; i < t.q.count(); i++) t.q.Set(i, -128 / std::sqrt(double(D)));
          for (int64_t i = 0; i < t.k.count(); i++) t.k.Set(i, 1 + t.k.Get(i) / 64);
          SharedContext().set_numerics({.deterministic = deterministic, .attention = backend});
          Check(p, t, dtype, /*tf32=*/false);
          SharedContext().set_numerics({});
        }
}

TEST(Rope, RotatesPairsByGlobalPosition) {
  Rng rng(46);
  for (DType dtype : Floats())
    for (int64_t T : {0, 1, 9, 70})
      for (int64_t D : {2, 16, 64, 80}) {
        int64_t H = D == 64 ? 11 : 3;  // D = 64 is a case that models have: dense, and a power of two
        auto padding = [&] { return D == 64 ? Shape(4, 0) : RandomPadding(rng, 4); };
        Box x(dtype, {2, T, H, D}, padding(), {0, 30, 0, 0}), y(dtype, {2, T, H, D}, padding(), {0, 30, 0, 0});
        std::normal_distribution<double> normal;
        for (int64_t i = 0; i < x.count(); i++) x.Set(i, normal(rng));
        for (int64_t inverse : {0, 1}) {
          RunKernel(Op::kRope, {{"theta", 10000.0}, {"inverse", inverse}, {"start", 5}}, {&x}, {&y});
          Values want;
          int64_t half = D / 2;
          for (int64_t i = 0; i < x.count(); i++) {
            int64_t d = i % D, t = i / D / H % T, low = d % half;
            double angle = double(5 + 30 + t) * std::pow(10000.0, -2.0 * double(low) / double(D)) * (inverse ? -1 : 1);
            double a = x.Get(i - d + low), b = x.Get(i - d + low + half);
            want.push_back(d < half ? a * std::cos(angle) - b * std::sin(angle)
                                    : b * std::cos(angle) + a * std::sin(angle));
          }
          // An angle of up to 105 has a rounding error of its own, in the kernel and in the reference.
          ExpectClose(y, want, Tolerance(dtype, 4) + 2 * 105 * 0x1p-53, 2);
        }
      }
}

// For every number of turns, the share of the frequency that remains grows from 1 / factor to 1 and never falls. The
// kernels rotate by the scaled frequency.
TEST(Rope, ScalesFrequenciesByTheirTurns) {
  RopeScaling scaling{.factor = 8, .low = 1, .high = 4, .context = 64};
  double turn = 2 * std::numbers::pi / 64, last = 0;
  for (double turns = 0.01; turns < 10; turns *= 1.01) {
    double share = scaling(turns * turn) / (turns * turn);
    EXPECT_GE(share, last * (1 - 1e-12));
    if (turns <= 1) {
      EXPECT_DOUBLE_EQ(share, 1.0 / 8);
    } else if (turns >= 4) {
      EXPECT_EQ(share, 1);
    }
    last = share;
  }
  EXPECT_NEAR(scaling(2.5 * turn) / (2.5 * turn), 0.5 + 0.5 / 8, 1e-12);
  EXPECT_EQ(RopeScaling()(0.3), 0.3);
  Attrs attrs{{"theta", 50.0}, {"inverse", 0}, {"start", 3},   {"factor", 8.0},
              {"low", 1.0},    {"high", 4.0},  {"context", 64}};
  Rng rng(48);
  for (DType dtype : Floats())
    for (int64_t D : {6, 64}) {
      Box x = RandomBox(rng, dtype, {2, 40, 3, D}), y(dtype, {2, 40, 3, D});
      RunKernel(Op::kRope, attrs, {&x}, {&y});
      Values want;
      for (int64_t i = 0; i < x.count(); i++) {
        int64_t d = i % D, t = i / D / 3 % 40, half = D / 2, low = d % half;
        double angle = double(3 + t) * scaling(std::pow(50.0, -2.0 * double(low) / double(D)));
        double a = x.Get(i - d + low), b = x.Get(i - d + low + half);
        want.push_back(d < half ? a * std::cos(angle) - b * std::sin(angle)
                                : b * std::cos(angle) + a * std::sin(angle));
      }
      ExpectClose(y, want, Tolerance(dtype, 4) + 2 * 43 * 0x1p-53, 2);  // an angle of up to 43 has a rounding error
    }
}

// The first dims of a head are rotated like a head of their size; the others stay.
TEST(Rope, RotatesTheFirstDimsOnly) {
  Rng rng(49);
  for (DType dtype : Floats())
    for (auto [D, R] : {std::pair<int64_t, int64_t>{6, 2}, {10, 4}, {64, 16}, {80, 20}, {96, 64}, {128, 32}, {8, 8}}) {
      SCOPED_TRACE(testing::Message() << Name(dtype) << ", " << R << " of " << D);
      Shape shape{2, 33, 3, D}, first{2, 33, 3, R};
      Box x = RandomBox(rng, dtype, shape), y(dtype, shape), part(dtype, first), turned(dtype, first);
      for (int64_t i = 0; i < part.count(); i++) part.Set(i, x.Get(i / R * D + i % R));
      Attrs attrs{{"theta", 500.0}, {"inverse", 0}, {"start", 2}};
      RunKernel(Op::kRope, attrs, {&part}, {&turned});
      attrs.Set({"rotated", R});
      RunKernel(Op::kRope, attrs, {&x}, {&y});
      Values want;
      for (int64_t i = 0; i < x.count(); i++) {
        want.push_back(i % D < R ? turned.Get(i / D * R + i % D) : x.Get(i));
        ASSERT_TRUE(i % D < R || y.Get(i) == x.Get(i)) << i;
      }
      ExpectClose(y, want, Tolerance(dtype, 4), 4);  // a path with vectors may round a product that another fuses
    }
}

// Each sequence is rotated as one that starts at its offset, bit for bit.
TEST(Rope, OffsetsMoveTheirSequences) {
  Rng rng(50);
  for (DType dtype : Floats())
    for (int64_t T : {1, 5, 40})
      for (int64_t D : {6, 64, 80}) {
        const int64_t offsets[] = {0, 13, 100, -23};
        Box x = RandomBox(rng, dtype, {4, T, 4, D}), y(dtype, {4, T, 4, D}), starts(DType::kI64, {4});
        for (int64_t b = 0; b < 4; b++) starts.Set(b, double(offsets[b]));
        RunKernel(Op::kRope, {{"theta", 10000.0}, {"inverse", 0}, {"start", 2}}, {&x, &starts}, {&y});
        for (int64_t b = 0; b < 4; b++) {
          int64_t count = T * 4 * D;
          Box one(dtype, {1, T, 4, D}), want(dtype, {1, T, 4, D});
          for (int64_t i = 0; i < count; i++) one.Set(i, x.Get(b * count + i));
          RunKernel(Op::kRope, {{"theta", 10000.0}, {"inverse", 0}, {"start", 2 + offsets[b]}}, {&one}, {&want});
          for (int64_t i = 0; i < count; i++) ASSERT_EQ(y.Get(b * count + i), want.Get(i)) << b << " " << i;
        }
      }
}

// One launch rotates tensors with several head counts. The bits are those of one launch per tensor.
TEST(Rope, ManyAtOnceEqualOneByOne) {
  Rng rng(47);
  for (DType dtype : Floats())
    for (int64_t D : {6, 64, 80, 96}) {
      std::vector<Box> x, y, want;
      std::vector<Job> jobs;
      for (int64_t heads : {8, 2, 3, 1, 5, 2})
        for (auto* boxes : {&x, &y, &want}) boxes->push_back(Box(dtype, {2, 33, heads, D}, Shape(4, 0), {0, 7, 0, 0}));
      for (Box& box : x) box.SetAll(RandomBox(rng, dtype, box.shape()).All());
      for (size_t i = 0; i < x.size(); i++) {  // the last two have other angles
        Attrs attrs{{"theta", i == 4 ? 500.0 : 10000.0}, {"inverse", 1}, {"start", 5}};
        if (i == 5)
          for (const Attrs::Item& item : {Attrs::Item{"factor", 8.0}, {"low", 1.0}, {"high", 4.0}, {"context", 64}})
            attrs.Set(item);
        jobs.push_back({attrs, {&x[i]}, {&y[i]}});
        RunKernel(Op::kRope, attrs, {&x[i]}, {&want[i]});
      }
      RunMany(Op::kRope, jobs);
      for (size_t i = 0; i < x.size(); i++)
        EXPECT_TRUE(y[i].storage == want[i].storage) << Name(dtype) << ", head size " << D << ", tensor " << i;
    }
}

}  // namespace
}  // namespace weft::test
