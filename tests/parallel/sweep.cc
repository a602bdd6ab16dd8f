#include "parallel/sweep.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <future>
#include <mutex>
#include <random>
#include <utility>

#include "parallel/testing.h"
#include "weft/core/base/hash.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft::sweep {
namespace {

// All values are f64. Two orders of summation may differ by this much, relative to the largest value.
constexpr double kTolerance = 1e-11;

DType DTypeOf(const SampleInput& input) {
  switch (input.domain) {
    case Domain::kIds:
    case Domain::kIdsOrIgnored:
    case Domain::kOne:
      return DType::kI64;
    case Domain::kBool:
      return DType::kBool;
    default:
      return DType::kF64;
  }
}

double Draw(const SampleInput& input, std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> unit;
  switch (input.domain) {
    case Domain::kPositive:
      return 0.5 + 1.5 * unit(rng);
    case Domain::kNonzero:
      return (unit(rng) < 0.5 ? -1 : 1) * (0.2 + unit(rng));
    case Domain::kFraction:
      return std::floor(4 * unit(rng) - 2) + 0.2 + 0.6 * unit(rng);
    case Domain::kIds:
      return double(rng() % uint64_t(input.num_ids));
    case Domain::kIdsOrIgnored:
      return unit(rng) < 0.3 ? -100 : double(rng() % uint64_t(input.num_ids));
    case Domain::kBool:
      return double(rng() % 2);
    case Domain::kZero:
      return 0;
    case Domain::kOne:
      return 1;
    default:
      return 0.8 * normal(rng);
  }
}

std::string Describe(Op op, size_t sample, const std::vector<int>& mesh, const std::vector<Sharding>& placements) {
  std::string text = fmt::format("{} sample {} on mesh", Name(op), sample);
  for (int k : mesh) text += fmt::format(" {}", k);
  for (const Sharding& s : placements) text += " " + ToString(s);
  return text;
}

// Returns every placement of one operand once: per axis R, S(each dim) and P. If axes share a dim, both orders are
// included.
std::vector<Sharding> Placements(const SampleInput& input, int axes) {
  std::vector<Placement> one{Replicate()};
  for (int d = 0; d < int(input.shape.size()); d++) one.push_back(Shard(d));
  bool floating = DTypeOf(input) == DType::kF64 && input.domain != Domain::kShapeOnly;
  if (floating) one.push_back(Partial());
  if (floating && axes == 1) {
    one.push_back(Partial(ReduceOp::kMax));
    one.push_back(Partial(ReduceOp::kMin));
  }
  std::vector<Sharding> all;
  if (axes == 1) {
    for (const Placement& p : one) all.push_back(Sharding{p});
    return all;
  }
  // Two axes on one dim come first, with axis 1 as the major one and then with axis 0, because their errors are silent.
  for (bool minor_first : {true, false})
    for (const Placement& p : one)
      if (p.kind == Placement::kShard) all.push_back(Sharding{Shard(p.dim, minor_first), Shard(p.dim, !minor_first)});
  for (const Placement& p : one)
    for (const Placement& q : one)
      if (p.kind != Placement::kShard || !(p == q)) all.push_back(Sharding{p, q});
  return all;
}

// Calls `use` with all combinations over the operands. If there are more than kFull, which happens on two axes, it uses
// only those that place at most two operands, and those that give all operands the same placement if they can take it.
// This is enough because the rules decide axis by axis, and one axis has every combination. Returns whether all
// combinations were used.
constexpr double kFull = 60000;
bool Combinations(const std::vector<std::vector<Sharding>>& choices,
                  const std::function<void(const std::vector<Sharding>&)>& use) {
  double total = 1;
  for (const auto& c : choices) total *= double(c.size());
  std::vector<Sharding> pick(choices.size());
  if (total <= kFull) {
    std::function<void(size_t)> all = [&](size_t k) {
      if (k == choices.size()) return use(pick);
      for (const Sharding& s : choices[k]) {
        pick[k] = s;
        all(k + 1);
      }
    };
    all(0);
    return true;
  }
  int axes = choices[0][0].num_axes();
  auto reset = [&] {
    for (auto& p : pick) p = Sharding(axes);
  };
  for (size_t a = 0; a < choices.size(); a++)
    for (size_t b = a + 1; b < choices.size(); b++)
      for (const Sharding& s : choices[a])
        for (const Sharding& t : choices[b]) {
          reset();
          pick[a] = s;
          pick[b] = t;
          use(pick);
        }
  for (const auto& list : choices)
    for (const Sharding& s : list) {
      for (size_t k = 0; k < choices.size(); k++) {
        bool can = std::find(choices[k].begin(), choices[k].end(), s) != choices[k].end();
        pick[k] = can ? s : Sharding(axes);
      }
      use(pick);
    }
  return false;
}

struct Program {
  Graph graph;
  std::vector<std::string> outputs;
};

bool Differentiable(const Node& node, size_t input) {
  return IsFloating(node.inputs[input].dtype()) && int(input) != Record(node.op).shape_operand;
}

// Traces y = op(inputs). With `backward`, also the gradients of sum_i <dy_i, y_i> for the inputs.
Program Trace(Op op, const Sample& sample, const std::vector<Sharding>& placements, int axes, bool backward) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  std::vector<Var> inputs;
  for (size_t i = 0; i < sample.inputs.size(); i++)
    inputs.push_back(Leaf(fmt::format("in{}", i), DTypeOf(sample.inputs[i]), sample.inputs[i].shape, placements[i]));
  Outputs results = trace.Emit(op, sample.attrs, inputs, Loc::current());
  std::vector<NamedValue> named;
  for (size_t i = 0; i < results.size(); i++) named.push_back({fmt::format("y{}", i), results[i]});
  const Node& node = results[0].node();
  bool any = false;
  for (size_t i = 0; i < inputs.size(); i++) any |= Differentiable(node, i);
  if (backward && any && IsFloating(results[0].dtype())) {
    std::vector<Var> ys{results[0]}, dys{Leaf("dy", results[0].dtype(), results[0].shape(), Sharding(axes))};
    std::vector<Var> d = Vjp(ys, dys, inputs);
    for (size_t i = 0; i < d.size(); i++)
      if (d[i].defined() && Differentiable(node, i)) named.push_back({fmt::format("d{}", i), d[i]});
  }
  Program program;
  for (const NamedValue& n : named) program.outputs.push_back(n.name);
  program.graph = trace.Finish(std::move(named));
  return program;
}

using Values = std::map<std::string, Tensor>;

Values Inputs(const Sample& sample, const Program& reference, uint64_t seed) {
  Values values;
  std::vector<Tensor> drawn = SampleValues(sample, seed);
  for (size_t i = 0; i < drawn.size(); i++) values[fmt::format("in{}", i)] = drawn[i];
  for (const auto& node : reference.graph.nodes)
    if (node->op == Op::kLeaf && node->attrs.Text("name") == "dy")
      values["dy"] = Tensor::FromDoubles(SampleValues({{{node->outputs[0].shape}}}, seed + 1)[0].ToDoubles(),
                                         node->outputs[0].dtype, node->outputs[0].shape);
  return values;
}

bool SameValues(const Tensor& got, const Tensor& want, std::string* why) {
  if (got.shape() != want.shape() || got.dtype() != want.dtype()) {
    *why = fmt::format("is {} {}, one rank has {} {}", Name(got.dtype()), ToString(got.shape()), Name(want.dtype()),
                       ToString(want.shape()));
    return false;
  }
  std::vector<double> a = got.ToDoubles(), b = want.ToDoubles();
  double scale = got.dtype() == DType::kF64 ? 1 : 1e5;  // 1e-6: each partial sum of a cast to f32 is rounded separately
  for (double v : b)
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  for (size_t i = 0; i < b.size(); i++) {
    bool same = a[i] == b[i] || std::abs(a[i] - b[i]) <= kTolerance * scale;
    if (same) continue;
    *why = fmt::format("element {} is {:.17g}, one rank has {:.17g}", i, a[i], b[i]);
    return false;
  }
  return true;
}

struct Case {
  std::vector<Sharding> placements;
  LocalProgram local;
};

bool AnyPlaced(const std::vector<Sharding>& placements) {
  return std::any_of(placements.begin(), placements.end(),
                     [](const Sharding& s) { return s != Sharding(s.num_axes()); });
}

// Returns where a share of the placements begins. It differs by op, sample and mesh, and is the same in every process.
uint64_t Stagger(Op op, size_t sample, const std::vector<int>& mesh) {
  StableHash hash;
  hash.Mix(uint64_t(op));
  hash.Mix(uint64_t(sample));
  for (int k : mesh) hash.Mix(uint64_t(k));
  return hash.value();
}

class MeshSweep {
 public:
  MeshSweep(Op op, size_t index, const Sample& sample, const std::vector<int>& mesh, const Options& options)
      : op_(op),
        index_(index),
        sample_(sample),
        sizes_(mesh),
        mesh_(test::MeshOf(mesh)),
        options_(options),
        stagger_(Stagger(op, index, mesh)),
        seen_(stagger_ % options.share) {
    Program reference =
        Trace(op, sample, std::vector<Sharding>(sample.inputs.size(), Sharding(0)), 0, options.backward);
    values_ = Inputs(sample, reference, 11 + index);
    Context context(0, 1);
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    LocalProgram local = Partition(reference.graph, {.kernels = &test::KernelsOf(DeviceKind::kCpu)});
    expected_ =
        Interpret(local, {&context}, [&](const std::string& name, const ValueInfo&) { return values_.at(name); });
  }

  Result Run() {
    std::vector<std::vector<Sharding>> choices;
    for (const SampleInput& input : sample_.inputs) choices.push_back(Placements(input, mesh_.num_axes()));
    if (std::all_of(choices.begin(), choices.end(), [](const auto& c) { return c.size() == 1; }))
      Prepare(std::vector<Sharding>(choices.size(), Sharding(mesh_.num_axes())));
    else
      result_.thinned = !Combinations(choices, [&](const std::vector<Sharding>& p) { PrepareShare(p); });
    PrepareSpare();
    Flush();
    Wait();
    return std::move(result_);
  }

 private:
  // Whether two operands shard different labels on one axis, which is the only case that the rules may refuse.
  bool MustRefuse(const std::vector<Sharding>& placements, const Node& node) const {
    Dims dims = Record(op_).dims(node);
    for (int a = 0; a < mesh_.num_axes(); a++) {
      char label = 0;
      for (size_t k = 0; k < placements.size(); k++) {
        if (placements[k][a].kind != Placement::kShard) continue;
        char mine = dims.in[k][size_t(placements[k][a].dim)];
        if (dims.blocked.find(mine) != std::string::npos) continue;
        for (const Dims::Group& g : dims.groups)
          if (mine == g.outer) mine = g.merged;
        if (label && mine != label) return true;
        label = mine;
      }
    }
    return false;
  }

  void PrepareShare(const std::vector<Sharding>& placements) {
    if (seen_++ % options_.share == 0)
      Prepare(placements);
    else if (placed_ == 0 && spare_.size() < options_.share && AnyPlaced(placements))
      spare_.push_back(placements);
  }

  // A share of few placements may contain only Replicate. In that case one of the other placements runs.
  void PrepareSpare() {
    for (size_t i = 0; i < spare_.size() && placed_ == 0; i++) Prepare(spare_[(stagger_ + i) % spare_.size()]);
    result_.unplaced += placed_ == 0 && !spare_.empty();
  }

  void Prepare(const std::vector<Sharding>& placements) {
    Program program = Trace(op_, sample_, placements, mesh_.num_axes(), options_.backward);
    const Node& node = *std::find_if(program.graph.nodes.begin(), program.graph.nodes.end(), [&](const auto& n) {
                          return n->op == op_;
                        })->get();
    try {
      batch_.push_back(
          {placements, Partition(program.graph,
                                 {.mesh = mesh_, .ops = options_.ops, .kernels = &test::KernelsOf(DeviceKind::kCpu)})});
      if (options_.damage) options_.damage(batch_.back().local.graph);
      placed_ += AnyPlaced(placements);
    } catch (const Error& e) {
      if (MustRefuse(placements, node))
        result_.refused++;
      else
        Fail(placements, e.what());
    }
    if (batch_.size() >= 1000) Flush();
  }

  // Runs the batch while the next one is prepared.
  void Flush() {
    Wait();
    result_.cases += int64_t(batch_.size());
    result_.runs += int64_t(batch_.size()) * mesh_.num_ranks();
    running_ = std::async(std::launch::async, [this, batch = std::exchange(batch_, {})] { RunBatch(batch); });
  }
  void Wait() {
    if (running_.valid()) running_.get();
  }

  void RunBatch(const std::vector<Case>& batch) {
    try {
      RunRanks(mesh_.num_ranks(), [&](Context& context, GroupFactory& groups) {
        RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
        RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
        if (options_.break_kernels) options_.break_kernels(context.kernels(DeviceKind::kCpu));
        DeviceMesh mesh(context, groups, mesh_);
        for (const Case& c : batch) RunCase(c, {&context, &mesh, mesh_, mesh.coords()});
      });
    } catch (const std::exception& e) {
      Fail({}, e.what());
    }
  }

  void RunCase(const Case& c, const Runtime& runtime) {
    Binder bind = [&](const std::string& name, const ValueInfo& info) {
      return test::Chunk(values_.at(name), info.sharding, mesh_, runtime.coords);
    };
    Values got = Interpret(c.local, runtime, bind, {.poison = true});
    for (auto& [name, want] : expected_) {
      std::string why;
      if (!SameValues(got.at(name), want, &why)) Fail(c.placements, name + ": " + why);
    }
  }

  void Fail(const std::vector<Sharding>& placements, const std::string& why) {
    std::lock_guard lock(mutex_);
    result_.failures.push_back(Describe(op_, index_, sizes_, placements) + ": " + why);
  }

  Op op_;
  size_t index_;
  const Sample& sample_;
  std::vector<int> sizes_;
  MeshShape mesh_;
  const Options& options_;
  Values values_, expected_;
  std::vector<Case> batch_;
  uint64_t stagger_, seen_;
  int64_t placed_ = 0;  // cases that place at least one operand
  std::vector<std::vector<Sharding>> spare_;
  Result result_;
  std::mutex mutex_;
  std::future<void> running_;  // last, so that it ends before the members that it uses
};

}  // namespace

std::vector<Tensor> SampleValues(const Sample& sample, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<Tensor> tensors;
  for (const SampleInput& input : sample.inputs) {
    std::vector<double> values(size_t(NumElements(input.shape)));
    for (double& v : values) v = Draw(input, rng);
    tensors.push_back(Tensor::FromDoubles(values, DTypeOf(input), input.shape));
  }
  return tensors;
}

void Result::Add(const Result& other) {
  cases += other.cases;
  runs += other.runs;
  refused += other.refused;
  unplaced += other.unplaced;
  thinned |= other.thinned;
  fallback |= other.fallback;
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
}

Result SweepOp(Op op, const Options& options) {
  Result result{.fallback = !test::KernelsOf(DeviceKind::kCpu).Has(op)};
  std::vector<Sample> samples = Record(op).samples(op);
  for (size_t i = 0; i < samples.size(); i++)
    for (const std::vector<int>& mesh : options.meshes) result.Add(MeshSweep(op, i, samples[i], mesh, options).Run());
  return result;
}

}  // namespace weft::sweep
