// weft bench dispatch: times the cost of issuing an op, by executor. It runs a chain of ops on small tensors, in which
// each op reads the result of the previous one.
#include <algorithm>

#include "fmt/format.h"
#include "launcher/bench/bench_job.h"
#include "launcher/bench/compiled_case.h"
#include "launcher/bench/number_list.h"
#include "weft/core/compile/eager.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

constexpr int kChain = 100;  // ops per run, so that the fixed cost of a run has little weight

// An op of the chain, and the shape of its tensors.
struct ChainOp {
  const char* name;
  Shape (*shape)(int64_t elements);
  Var (*apply)(const Var& y, const Var& x);
};
constexpr ChainOp kChainOps[] = {
    {"add", [](int64_t n) { return Shape{n}; }, [](const Var& y, const Var& x) { return y + x; }},
    {"product",
     [](int64_t n) {
       return Shape{n, n};
     },
     [](const Var& y, const Var& x) { return Einsum("ij,jk->ik", y, x); }},
};

Var Chain(const ChainOp& op, const Var& x) {
  Var y = x;
  for (int i = 0; i < kChain; i++) y = op.apply(y, x);
  return y;
}

// One op on tensors of one size.
class DispatchBench {
 public:
  DispatchBench(const BenchJob& job, const ChainOp& op, int64_t elements)
      : job_(job), runtime_(job.runtime()), op_(op), elements_(elements), shape_(op.shape(elements)) {
    tensors_["x"] = RandomTensor(runtime_, DType::kF32, shape_, "x");
  }

  void Run(const std::string& executor) {
    if (executor == "eager") return RunEager();
    LocalProgram program = TraceCase(runtime_, [&]() -> std::vector<NamedValue> {
      return {{"y", Chain(op_, Leaf("x", DType::kF32, shape_))}};
    });
    if (executor == "interpret") return RunInterpreted(program);
    std::unique_ptr<Executable> compiled = CompileCase(runtime_, program, tensors_);
    auto run = [&] { compiled->Run(); };
    Time(executor, int64_t(compiled->num_steps()), run);
  }

 private:
  void RunEager() const {
    Sharding replicated(runtime_.mesh_shape.num_axes());
    EagerBuilder eager(runtime_, /*bind=*/nullptr);
    BuilderScope builder(eager);
    Var x = eager.FromLocal(tensors_.at("x"), shape_, replicated);
    Time("eager", kChain, [&] { eager.ToLocal(Chain(op_, x), replicated); });
  }

  void RunInterpreted(const LocalProgram& program) const {
    Binder bind = [this](const std::string& name, const ValueInfo&) { return tensors_.at(name); };
    Time("interpret", kChain, [&] { Interpret(program, runtime_, bind); });
  }

  void Time(const std::string& executor, int64_t ops, absl::FunctionRef<void()> run) const {
    CallTimes times = job_.Time([&](int64_t calls) {
      for (int64_t i = 0; i < calls; i++) run();
    });
    BenchLine line{.kind = "dispatch", .dtype = Name(DType::kF32), .unit = "ops/s"};
    line.name = fmt::format("{} {} {}", op_.name, ToString(shape_), executor);
    line.labels = {{"op", op_.name}, {"executor", executor}};
    line.sizes = {{"elements", elements_}};
    line.times = times.PartOf(ops);
    line.rate = 1e3 / line.times.Median();
    job_.Print(line);
  }

  const BenchJob& job_;
  Runtime runtime_;
  const ChainOp& op_;
  int64_t elements_;
  Shape shape_;
  NamedTensors tensors_;
};

}  // namespace

absl::Status RunDispatchBench(const BenchJob& job) {
  const BenchWords& w = job.words;
  std::vector<std::string> choices;
  for (const ChainOp& op : kChainOps) choices.emplace_back(op.name);
  absl::StatusOr<std::vector<std::string>> ops = ParseNames("op", w.op.empty() ? "add,product" : w.op, choices);
  if (!ops.ok()) return ops.status();
  absl::StatusOr<std::vector<std::string>> executors = BenchExecutors(w);
  if (!executors.ok()) return executors.status();
  absl::StatusOr<std::vector<int64_t>> sizes = ParseCounts("elements", w.elements);
  if (!sizes.ok()) return sizes.status();
  job.PrintHead();
  for (const std::string& name : *ops)
    for (int64_t elements : *sizes) {
      const ChainOp& op = *std::find_if(std::begin(kChainOps), std::end(kChainOps),
                                        [&](const ChainOp& one) { return name == one.name; });
      DispatchBench bench(job, op, elements);
      for (const std::string& executor : *executors) bench.Run(executor);
    }
  return absl::OkStatus();
}

}  // namespace weft
