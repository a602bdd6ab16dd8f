#include "parallel/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "lockstep/lockstep.h"
#include "parallel/testing.h"
#include "weft/core/base/hash.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
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

// The values of one rank that those of the meshes must equal.
struct Expected {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<double> values;
  double allowed;  // the largest difference
};

Expected Expect(const std::string& name, const Tensor& value) {
  std::vector<double> values = value.ToDoubles();
  double scale =
      value.dtype() == DType::kF64 ? 1 : 1e5;  // 1e-6: each partial sum of a cast to f32 is rounded separately
  for (double v : values)
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  return {name, value.dtype(), value.shape(), std::move(values), kTolerance * scale};
}

// Returns how the value differs, or nothing.
std::string Difference(const Tensor& got, const Expected& want) {
  if (got.shape() != want.shape || got.dtype() != want.dtype)
    return fmt::format("{}: is {} {}, one rank has {} {}", want.name, Name(got.dtype()), ToString(got.shape()),
                       Name(want.dtype), ToString(want.shape));
  std::vector<double> converted;
  const double* values = got.as<double>();
  if (got.dtype() != DType::kF64) {
    converted = got.ToDoubles();
    values = converted.data();
  }
  for (size_t i = 0; i < want.values.size(); i++) {
    double a = values[i], b = want.values[i];
    if (a == b || std::abs(a - b) <= want.allowed) continue;
    return fmt::format("{}: element {} is {:.17g}, one rank has {:.17g}", want.name, i, a, b);
  }
  return "";
}

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

// One sample of an op on one mesh, with what one rank computes.
struct Task {
  Op op;
  size_t index;
  const Sample& sample;
  std::vector<int> sizes;
  const Options& options;
  MeshShape mesh = test::MeshOf(sizes);
  Values values{};
  std::vector<Expected> expected{};  // in the order of the program's outputs
};

Task TaskOf(Op op, size_t index, const Sample& sample, const std::vector<int>& mesh, const Options& options) {
  Task task{op, index, sample, mesh, options};
  Program reference = Trace(op, sample, std::vector<Sharding>(sample.inputs.size(), Sharding(0)), 0, options.backward);
  task.values = Inputs(sample, reference, 11 + index);
  Context context(0, 1);
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  LocalProgram local = Partition(reference.graph, {.kernels = &test::KernelsOf(DeviceKind::kCpu)});
  auto bind = [&](const std::string& name, const ValueInfo&) { return task.values.at(name); };
  Values values = Interpret(local, {&context}, bind);
  for (const std::string& name : reference.outputs) task.expected.push_back(Expect(name, values.at(name)));
  return task;
}

// Runs placements of a task in one thread.
class Worker {
 public:
  explicit Worker(const Task& task)
      : task_(task),
        program_(Trace(task.op, task.sample, AllReplicate(), task.mesh.num_axes(), task.options.backward)),
        ranks_(task.mesh,
               [this](int rank, const std::string& name, const ValueInfo& info) { return Chunk(rank, name, info); },
               {.poison = true}),
        chunks_(size_t(task.mesh.num_ranks())) {
    for (const auto& node : program_.graph.nodes) {
      if (!node_ && node->op == task.op) node_ = node.get();  // its derivative may contain the op again
      if (node->op == Op::kLeaf) leaves_[node->attrs.Text("name")] = node.get();
    }
    for (int r = 0; r < ranks_.size(); r++)
      if (task.options.break_kernels) task.options.break_kernels(ranks_.kernels(r));
  }

  void Run(const std::vector<Sharding>& placements) {
    std::optional<LocalProgram> local = Prepare(placements);
    if (!local) return;
    result_.cases++;
    result_.runs += ranks_.size();
    const std::vector<NamedValue>& outputs = local->graph.outputs;
    auto same_name = [](const NamedValue& a, const Expected& b) { return a.name == b.name; };
    WEFT_CHECK(std::ranges::equal(outputs, task_.expected, same_name), "sweep: the program has other outputs");
    auto compare = [&](int, const Interpreter& done) {
      for (size_t i = 0; i < task_.expected.size(); i++)
        if (std::string why = Difference(done.Output(i), task_.expected[i]); !why.empty()) Fail(placements, why);
    };
    try {
      ranks_.Run(*local, compare);
    } catch (const std::exception& e) {
      Fail(placements, e.what());
    }
  }

  const Result& result() const { return result_; }
  int64_t placed() const { return placed_; }  // cases that place at least one operand

 private:
  std::vector<Sharding> AllReplicate() const {
    return std::vector<Sharding>(task_.sample.inputs.size(), Sharding(task_.mesh.num_axes()));
  }

  // Whether two operands shard different labels on one axis, which is the only case that the rules may refuse.
  bool MustRefuse(const std::vector<Sharding>& placements) const {
    Dims dims = Record(task_.op).dims(*node_);
    for (int a = 0; a < task_.mesh.num_axes(); a++) {
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

  // Returns the program of each rank, or nothing if the placements are refused. A trace depends on them only by its
  // leaves, so one trace serves them all.
  std::optional<LocalProgram> Prepare(const std::vector<Sharding>& placements) {
    for (size_t i = 0; i < placements.size(); i++)
      leaves_.at(fmt::format("in{}", i))->attrs.Set({"placement", placements[i]});
    try {
      LocalProgram local =
          Partition(program_.graph,
                    {.mesh = task_.mesh, .ops = task_.options.ops, .kernels = &test::KernelsOf(DeviceKind::kCpu)});
      if (task_.options.damage) task_.options.damage(local.graph);
      placed_ += AnyPlaced(placements);
      return local;
    } catch (const Error& e) {
      if (MustRefuse(placements))
        result_.refused++;
      else
        Fail(placements, e.what());
      return std::nullopt;
    }
  }

  // Kernels do not write their inputs, so all programs share a rank's chunk of an operand in one placement.
  Tensor Chunk(int rank, const std::string& name, const ValueInfo& info) {
    auto [chunk, made] = chunks_[size_t(rank)][name].try_emplace(info.sharding);
    if (made) chunk->second = test::Chunk(task_.values.at(name), info.sharding, task_.mesh, task_.mesh.CoordsOf(rank));
    return chunk->second;
  }

  void Fail(const std::vector<Sharding>& placements, const std::string& why) {
    result_.failures.push_back(Describe(task_.op, task_.index, task_.sizes, placements) + ": " + why);
  }

  const Task& task_;
  Program program_;
  const Node* node_ = nullptr;  // the op
  std::map<std::string, Node*> leaves_;
  test::LockstepRanks ranks_;
  std::vector<std::map<std::string, absl::flat_hash_map<Sharding, Tensor>>> chunks_;  // by rank, name and placement
  int64_t placed_ = 0;
  Result result_;
};

// The placements of a task, over several threads.
class MeshSweep {
 public:
  explicit MeshSweep(const Task& task) : task_(task), stagger_(Stagger(task.op, task.index, task.sizes)) {
    for (const SampleInput& input : task.sample.inputs) choices_.push_back(Placements(input, task.mesh.num_axes()));
  }

  Result Run() const {
    std::vector<std::future<Part>> running;
    size_t threads = NumThreads();
    for (size_t t = 1; t < threads; t++)
      running.push_back(std::async(std::launch::async, [this, t, threads] { return RunPart(t, threads); }));
    Part all = RunPart(0, threads);
    for (auto& other : running) {
      Part part = other.get();
      all.placed += part.placed;
      all.result.Add(part.result);
    }
    if (all.placed == 0) RunSpare(all.result);
    return all.result;
  }

 private:
  struct Part {
    Result result;
    int64_t placed;
  };

  // A thread is worth its start for some hundred placements.
  size_t NumThreads() const {
    double total = 1;
    for (const auto& list : choices_) total *= double(list.size());
    double most = std::min(total / double(task_.options.share) / 200 + 1, double(std::thread::hardware_concurrency()));
    return size_t(std::max(most, 1.0));
  }

  // Calls `use` for every placement, with whether the share contains it. Returns whether that is every combination.
  bool ForEach(const std::function<void(const std::vector<Sharding>&, bool in_share)>& use) const {
    if (std::all_of(choices_.begin(), choices_.end(), [](const auto& list) { return list.size() == 1; })) {
      use(std::vector<Sharding>(choices_.size(), Sharding(task_.mesh.num_axes())), true);
      return true;
    }
    size_t share = task_.options.share, seen = stagger_ % share;
    return Combinations(choices_, [&](const std::vector<Sharding>& p) { use(p, seen++ % share == 0); });
  }

  // Runs every `threads`-th placement of the share, from the t-th on.
  Part RunPart(size_t t, size_t threads) const {
    Worker worker(task_);
    size_t number = 0;
    bool all = ForEach([&](const std::vector<Sharding>& placements, bool in_share) {
      if (in_share && number++ % threads == t) worker.Run(placements);
    });
    Part part{worker.result(), worker.placed()};
    part.result.thinned = !all;
    return part;
  }

  // A share of few placements may contain only Replicate. In that case one of the other placements runs.
  void RunSpare(Result& result) const {
    std::vector<std::vector<Sharding>> spare;
    ForEach([&](const std::vector<Sharding>& placements, bool in_share) {
      if (!in_share && spare.size() < task_.options.share && AnyPlaced(placements)) spare.push_back(placements);
    });
    if (spare.empty()) return;
    Worker worker(task_);
    for (size_t i = 0; i < spare.size() && worker.placed() == 0; i++) worker.Run(spare[(stagger_ + i) % spare.size()]);
    result.Add(worker.result());
    result.unplaced += worker.placed() == 0;
  }

  const Task& task_;
  uint64_t stagger_;
  std::vector<std::vector<Sharding>> choices_;  // by operand
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
    for (const std::vector<int>& mesh : options.meshes) {
      Task task = TaskOf(op, i, samples[i], mesh, options);
      result.Add(MeshSweep(task).Run());
    }
  return result;
}

}  // namespace weft::sweep
