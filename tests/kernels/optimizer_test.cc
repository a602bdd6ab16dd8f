// Each optimizer's update agrees with its formula in f64, over several updates and in place. Update 0 changes nothing.
// Updating many parameters at once gives the bits of updating each by itself. A copy has the bits of a cast.
#include <functional>
#include <optional>

#include "harness.h"
#include "share.h"

namespace weft::test {
namespace {

// One element: p, the optimizer state in `kept`, and g already multiplied by scale. Updates the state and returns p'.
using Formula = std::function<double(double p, double* kept, double g, int step)>;
struct Rule {
  const char* name;
  Op op;
  size_t kept;
  Attrs attrs;
  Formula formula;
  // The update depends on the sign of this value. Check avoids gradients that bring it close to 0. Null if the update
  // depends on no sign.
  std::function<double(const double* kept, double g)> sign = nullptr;
};
constexpr double kLr = 0.0625, kScale = 0.5, kDecay = 0.1;  // kLr and kScale are exact in every type

double AdamW(double p, double* kept, double g, int step) {
  double &m = kept[0], &v = kept[1];
  m = 0.9 * m + 0.1 * g;
  v = 0.95 * v + 0.05 * g * g;
  return p - kLr * (m / (1 - std::pow(0.9, step)) / (std::sqrt(v / (1 - std::pow(0.95, step))) + 1e-8) + kDecay * p);
}
double Plain(double p, double*, double g, int) { return p - kLr * (g + kDecay * p); }
double Momentum(double p, double* kept, double g, int) {
  kept[0] = 0.9 * kept[0] + g + kDecay * p;
  return p - kLr * kept[0];
}
double Nesterov(double p, double* kept, double g, int) {
  kept[0] = 0.9 * kept[0] + g + kDecay * p;
  return p - kLr * (g + kDecay * p + 0.9 * kept[0]);
}
double Mix(const double* kept, double g) { return 0.9 * kept[0] + 0.1 * g; }
double Lion(double p, double* kept, double g, int) {
  double mix = Mix(kept, g);
  kept[0] = 0.99 * kept[0] + 0.01 * g;
  return p - kLr * ((mix > 0) - (mix < 0) + kDecay * p);
}

std::vector<Rule> Rules() {
  Attrs::Item decay{"weight_decay", kDecay};
  auto sgd = [&](double momentum, bool nesterov) {
    return Attrs{{"momentum", momentum}, {"nesterov", nesterov}, decay};
  };
  return {{"adamw", Op::kAdamW, 2, {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, decay}, AdamW},
          {"sgd", Op::kSgd, 0, sgd(0, false), Plain},
          {"sgd with momentum", Op::kSgd, 1, sgd(0.9, false), Momentum},
          {"sgd with Nesterov's", Op::kSgd, 1, sgd(0.9, true), Nesterov},
          {"lion", Op::kLion, 1, {{"beta1", 0.9}, {"beta2", 0.99}, decay}, Lion, Mix}};
}

// A parameter with its optimizer state and gradient. `make` makes each tensor from a dtype and a lowest value.
struct Parameter {
  const Rule* rule;
  Box p;
  std::vector<Box> kept;
  Box g;
  std::optional<Box> copy{};  // of the new parameter

  Parameter(const Rule& r, DType dtype, DType gradient, const std::function<Box(DType, double low)>& make)
      : rule(&r), p(make(dtype, -2)), g(make(gradient, -2)) {
    for (size_t i = 0; i < r.kept; i++) kept.push_back(make(AccumulateType(dtype), i == 1 ? 0 : -2));
  }
  Job Update(const Box& lr, const Box& scale, const Box& updates) {
    Job job{rule->attrs, {&p}, {&p}};
    for (Box& k : kept) job.in.push_back(&k), job.out.push_back(&k);
    if (copy) {
      job.attrs.Set({"dtype", int(copy->view.dtype)});
      job.out.push_back(&*copy);
    }
    for (const Box* rest : {static_cast<const Box*>(&g), &lr, &scale, &updates}) job.in.push_back(rest);
    return job;
  }
};

struct Scalars {
  Box lr, scale, updates;
  Scalars(DType wide, double lr_value, double scale_value, int t)
      : lr(wide, {}), scale(wide, {}), updates(DType::kI64, {}) {
    lr.Set(0, lr_value), scale.Set(0, scale_value), updates.Set(0, t);
  }
};

void Run(Parameter& x, const Scalars& s, int threads) {
  Job job = x.Update(s.lr, s.scale, s.updates);
  RunKernel(x.rule->op, job.attrs, job.in, job.out, threads);
}

void Check(const Rule& rule, Rng& rng, DType dtype, DType gradient, const Shape& shape, int threads) {
  DType wide = AccumulateType(dtype);
  Parameter x(rule, dtype, gradient, [&](DType type, double) { return RandomBox(rng, type, shape); });
  for (Box& k : x.kept) k.SetAll(Values(size_t(k.count())));
  for (int step = 1; step <= 3; step++) {
    x.g = RandomBox(rng, gradient, shape);
    Values p = x.p.All();
    std::vector<Values> kept(rule.kept);
    for (size_t k = 0; k < rule.kept; k++) kept[k] = x.kept[k].All();
    for (size_t i = 0; i < p.size(); i++) {
      double k[2] = {};
      for (size_t j = 0; j < rule.kept; j++) k[j] = kept[j][i];
      double gi = x.g.Get(int64_t(i)) * kScale;
      if (rule.sign && std::abs(rule.sign(k, gi)) < 1e-3) x.g.Set(int64_t(i), 1), gi = kScale;
      p[i] = rule.formula(p[i], k, gi, step);
      for (size_t j = 0; j < rule.kept; j++) kept[j][i] = k[j];
    }
    Run(x, Scalars(wide, kLr, kScale, step), threads);
    // The state may cancel, so its tolerance has the scale of terms of size 1, and that of the squares a small scale.
    for (size_t k = 0; k < rule.kept; k++) ExpectClose(x.kept[k], kept[k], Tolerance(wide, 6), k == 1 ? 1e-3 : 1);
    ExpectClose(x.p, p, Tolerance(dtype, 16) * step, 1);
  }
}

// Runs a check for every rule over dtypes, shapes and numbers of threads.
void Sweep(void (*check)(const Rule&, Rng&, DType, DType, const Shape&, int)) {
  Rng rng(91);
  size_t round = 0;
  for (const Rule& rule : Rules()) {
    SCOPED_TRACE(rule.name);
    for (DType dtype : Floats())
      for (DType gradient : {dtype, AccumulateType(dtype)})
        for (const Shape& shape : std::vector<Shape>{{}, {0}, {1}, {3, 5}, {40, 1000}})
          for (int threads : {1, 2})
            if (!Skips(round)) check(rule, rng, dtype, gradient, shape, threads);
    for (DType narrow : {DType::kBF16, DType::kF16}) check(rule, rng, DType::kF32, narrow, {40, 1000}, 1);
  }
}

TEST(Optimizer, FollowsTheFormula) { Sweep(&Check); }

// With and without an update, and with a copy that lies like the parameter or not.
void CheckCopy(const Rule& rule, Rng& rng, DType dtype, DType gradient, const Shape& shape, int threads) {
  auto random = [&](DType type, double low) { return RandomBox(rng, type, shape, low, 2); };
  Parameter plain(rule, dtype, gradient, random);
  bool wide = dtype == AccumulateType(dtype);
  DType narrow = wide ? PickOf<DType>(rng, {DType::kBF16, DType::kF16, DType::kF32}) : dtype;
  Scalars s(AccumulateType(dtype), kLr, kScale, Pick(rng, 0, 2));
  Parameter copied = plain;
  copied.copy = random(narrow, -2);
  Run(copied, s, threads);
  Run(plain, s, threads);
  EXPECT_EQ(copied.p.storage, plain.p.storage) << Name(narrow);
  Box want(narrow, shape);
  want.SetAll(plain.p.All());
  EXPECT_EQ(copied.copy->All(), want.All()) << Name(narrow);
}

TEST(Optimizer, CopiesAreCasts) { Sweep(&CheckCopy); }

// Update 0 changes no bit of the parameter and its state, whatever the gradient and the scalars contain, in place or
// not.
void CheckNone(const Rule& rule, Rng& rng, DType dtype, DType gradient, const Shape& shape, int threads) {
  Parameter x(rule, dtype, gradient, [&](DType type, double low) { return RandomBox(rng, type, shape, low, 2); });
  const double bad[] = {NAN, INFINITY, -INFINITY};
  for (int64_t i = 0; i < x.g.count(); i += 2) x.g.Set(i, bad[i / 2 % 3]);
  if (x.p.count() > 0) x.p.Set(0, INFINITY);
  Scalars none(AccumulateType(dtype), INFINITY, NAN, 0);
  const Parameter before = x;
  Parameter apart(rule, dtype, gradient, [&](DType type, double) { return Box(type, shape); });
  Job job = x.Update(none.lr, none.scale, none.updates);
  job.out = apart.Update(none.lr, none.scale, none.updates).out;
  RunKernel(rule.op, job.attrs, job.in, job.out, threads);
  EXPECT_EQ(apart.p.All(), before.p.All());
  for (size_t k = 0; k < rule.kept; k++) EXPECT_EQ(apart.kept[k].All(), before.kept[k].All());
  Run(x, none, threads);
  EXPECT_EQ(x.p.storage, before.p.storage);
  for (size_t k = 0; k < rule.kept; k++) EXPECT_EQ(x.kept[k].storage, before.kept[k].storage);
}

TEST(Optimizer, UpdateZeroChangesNothing) { Sweep(&CheckNone); }

// The parameters of one batch have one element, none, or sizes that are or are not a multiple of the vector length.
// Some are padded, have other types or have other settings. There are more than one launch takes.
void CheckMany(const Rule& rule, const Rule* other) {
  Rng rng(92);
  std::vector<Parameter> apart;
  Rule undecayed = rule, faster = rule;
  undecayed.attrs.Set({"weight_decay", 0.0});
  faster.attrs.Set(rule.op == Op::kSgd ? Attrs::Item{"momentum", 0.8} : Attrs::Item{"beta1", 0.8});
  for (int i = 0; i < (Share() > 1 ? 150 : 450); i++) {
    Shape shape{PickOf<int64_t>(rng, {0, 1, 3, 5, 64, 129, 1023, 4096}), PickOf<int64_t>(rng, {1, 2, 7, 8})};
    DType dtype = i % 7 == 0 ? DType::kBF16 : DType::kF32, gradient = i % 11 == 0 ? DType::kBF16 : DType::kF32;
    const Rule& mine = other && i % 4 == 0 ? *other : i % 13 == 12 ? faster : Pick(rng, 0, 1) ? rule : undecayed;
    auto make = [&](DType type, double low) {
      Box random = RandomBox(rng, type, shape, low, 2), dense(type, shape);
      dense.SetAll(random.All());
      return i % 5 == 0 ? random : dense;
    };
    apart.emplace_back(mine, dtype, gradient, make);
    if (i % 3 == 0) apart.back().copy = make(dtype == DType::kF32 && i % 17 == 0 ? DType::kF16 : DType::kBF16, -2);
  }
  Scalars s(DType::kF32, 3e-3, 0.7, 3);
  std::vector<Parameter> together = apart;
  std::vector<Job> jobs;
  for (size_t i = 0; i < apart.size(); i++) {
    Run(apart[i], s, 1);
    jobs.push_back(together[i].Update(s.lr, s.scale, s.updates));
  }
  RunMany(rule.op, jobs);
  for (size_t i = 0; i < apart.size(); i++) {
    std::string which = "parameter " + std::to_string(i) + " " + ToString(apart[i].p.shape());
    ASSERT_TRUE(together[i].p.storage == apart[i].p.storage) << which;
    for (size_t k = 0; k < apart[i].kept.size(); k++)
      ASSERT_TRUE(together[i].kept[k].storage == apart[i].kept[k].storage) << which;
    ASSERT_TRUE(!apart[i].copy || together[i].copy->storage == apart[i].copy->storage) << which;
  }
}

TEST(Optimizer, ManyAtOnceAreEachAlone) {
  std::vector<Rule> rules = Rules();
  for (size_t i = 0; i < rules.size(); i++) {
    SCOPED_TRACE(rules[i].name);
    bool joined = i > 0 && rules[i - 1].op == rules[i].op;
    CheckMany(rules[i], joined ? &rules[i - 1] : nullptr);
  }
}

}  // namespace
}  // namespace weft::test
