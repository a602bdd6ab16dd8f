#include "weft/parallel/program/function.h"

#include <fmt/format.h>

#include "weft/core/base/memory.h"
#include "weft/core/base/shard.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/compile/pipeline.h"

namespace weft {
namespace {

// Returns the outputs of a program, without their storage.
std::vector<Function::Result> ResultsOf(const LocalProgram& program) {
  std::vector<Function::Result> results;
  for (const NamedValue& out : program.graph.outputs) {
    const ValueInfo& info = out.value.node().outputs[size_t(out.value.index())];
    results.push_back({out.name, {}, info.global, info.sharding});
  }
  return results;
}

// Binds entries of the State, and arguments by their names.
Binder BinderOf(State& state, const std::vector<Tensor>& arguments) {
  return [&state, &arguments, entries = state.binder()](const std::string& name, const ValueInfo& info) {
    for (size_t i = 0; i < arguments.size(); i++)
      if (name == Program::ArgumentName(i)) return arguments[i];
    return entries(name, info);
  };
}

class Compiled final : public Function {
 public:
  Compiled(const Program& program, State& state, const Runtime& runtime, FunctionOptions options)
      : device_(runtime.memory()) {
    for (const ValueInfo& info : program.arguments()) {
      Shape chunk = ChunkShape(info.shape, info.sharding, runtime.mesh_shape);
      slots_.push_back(Tensor::Zeros(info.dtype, chunk, device_));
    }
    Plan plan = options.plan ? *std::move(options.plan)
                             : Compile(program.local(), runtime, program.options().name, program.options().recompute);
    MemoryUse use("activations");
    executable_.emplace(std::move(plan), runtime, BinderOf(state, slots_), std::move(options.arena));
    results_ = ResultsOf(program.local());
    for (Result& result : results_) result.storage = executable_->Output(result.name);
  }

  void Run(std::span<const Tensor> arguments) override {
    for (size_t i = 0; i < slots_.size(); i++) device_.Copy(slots_[i].data(), arguments[i].data(), slots_[i].bytes());
    executable_->Run();
  }
  Executable* executable() override { return &*executable_; }

 private:
  DeviceRuntime& device_;
  std::vector<Tensor> slots_;
  std::optional<Executable> executable_;
};

class Interpreted final : public Function {
 public:
  Interpreted(const Program& program, State& state, const Runtime& runtime, FunctionOptions options)
      : program_(program), state_(state), runtime_(runtime), options_(std::move(options)) {
    results_ = ResultsOf(program.local());
  }

  void Run(std::span<const Tensor> arguments) override {
    std::vector<Tensor> bound(arguments.begin(), arguments.end());
    bool traps = !options_.traps_nan || options_.traps_nan();
    auto values = Interpret(program_.local(), runtime_, BinderOf(state_, bound),
                            {.trap_nan = traps, .poison = true, .print = options_.prints});
    for (Result& result : results_) result.storage = values.at(result.name);
  }

 private:
  const Program& program_;
  State& state_;
  Runtime runtime_;
  FunctionOptions options_;
};

class Eager final : public Function {
 public:
  Eager(const Program& program, State& state, const Runtime& runtime)
      : program_(program), state_(state), runtime_(runtime) {}

  void Run(std::span<const Tensor> arguments) override {
    EagerBuilder eager(runtime_, state_.binder(), program_.options().random);
    std::vector<Var> values;
    for (size_t i = 0; i < arguments.size(); i++) {
      const ValueInfo& info = program_.arguments()[i];
      values.push_back(eager.FromLocal(arguments[i], info.shape, info.sharding, IsFloating(info.dtype)));
    }
    results_.clear();
    for (const NamedValue& out : program_.RunEagerly(eager, state_, values)) {
      Sharding sharding = PlacementOf(out, eager);
      results_.push_back({out.name, eager.ToLocal(out.value, sharding), out.value.shape(), sharding});
    }
  }

 private:
  // Returns the placement that Partition gives this output of a program.
  Sharding PlacementOf(const NamedValue& out, EagerBuilder& eager) const {
    const PartitionOptions& options = program_.options().partition;
    if (auto it = options.wanted.find(out.name); it != options.wanted.end()) return it->second;
    return options.natural ? eager.ShardingOf(out.value) : Sharding(runtime_.mesh_shape.num_axes());
  }

  const Program& program_;
  State& state_;
  Runtime runtime_;
};

}  // namespace

std::unique_ptr<Function> MakeFunction(const Program& program, State& state, const Runtime& runtime,
                                       FunctionOptions options) {
  switch (options.executor) {
    case ExecutorKind::kEager:
      return std::make_unique<Eager>(program, state, runtime);
    case ExecutorKind::kInterpret:
      return std::make_unique<Interpreted>(program, state, runtime, std::move(options));
    case ExecutorKind::kCompiled:
      break;
  }
  return std::make_unique<Compiled>(program, state, runtime, std::move(options));
}

}  // namespace weft
