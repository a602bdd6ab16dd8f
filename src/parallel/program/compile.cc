#include "weft/parallel/program/compile.h"

#include <fmt/format.h>

#include "weft/core/ops/ops.h"

namespace weft {

struct StateFunction::Trace {
  Program program;
  bool draws;
  std::unique_ptr<Function> function;
};

StateFunction::StateFunction(Program::Body body, State& state, CompileOptions options, Loc loc)
    : body_(std::move(body)), state_(state), options_(std::move(options)), loc_(loc) {}
StateFunction::~StateFunction() = default;

DTensor StateFunction::Argument(const Tensor& x) const {
  const auto& session = state_.session();
  Site site{"Compile", loc_};
  WEFT_CHECK(x.defined(), fmt::format("{}: expected a tensor as an argument, got an empty one", ToString(site)));
  Tensor here = x.device() == session->device() ? x : x.To(session->memory());
  return FromStorage(session, std::move(here), x.shape(), Sharding(state_.mesh().num_axes()), {}, site);
}

void StateFunction::CheckArgument(size_t i, const DTensor& x) const {
  Site site{"Compile", loc_};
  WEFT_CHECK(x, fmt::format("{}: argument {}: expected a tensor, got an empty DTensor", ToString(site), i));
  WEFT_CHECK(&x.mesh() == &state_.session()->mesh(),
             fmt::format("{}: argument {}: expected a DTensor on the State's mesh {}, got {}; Redistribute it",
                         ToString(site), i, ToString(state_.mesh()), ToString(x)));
  Device have = x.Storage().device(), want = state_.session()->device();
  WEFT_CHECK(have == want, fmt::format("{}: argument {}: expected a DTensor on {}, where the State is, got one on {}",
                                       ToString(site), i, ToString(want), ToString(have)));
}

std::vector<NamedValue> StateFunction::RunBody(std::span<const Var> arguments) {
  Builder& builder = CurrentBuilder();
  builder.RestartRandom();
  builder.step = Leaf(State::kCalls, DType::kI64, {}, {}, loc_);
  builder.first_row = Full(0, DType::kI64, {}, loc_);
  std::vector<NamedValue> results = body_(arguments);
  has_drawn_ = builder.HasDrawn();
  return results;
}

StateFunction::Trace& StateFunction::TraceFor(const std::vector<DTensor>& arguments) {
  // A trace records the backends of attention that are allowed around the call.
  std::string key = fmt::format("{};", SdpaBackends::Current());
  std::vector<ValueInfo> infos;
  for (const DTensor& x : arguments) {
    ValueInfo info;
    info.dtype = x.dtype();
    info.shape = x.shape();
    info.sharding = x.placements();
    key += fmt::format("{} {} {};", Name(info.dtype), ToString(info.shape), ToString(info.sharding));
    infos.push_back(std::move(info));
  }
  if (auto it = traces_.find(key); it != traces_.end()) return *it->second;
  Runtime runtime = state_.runtime();
  ProgramOptions options{
      .name = options_.name,
      .random = {state_.seed(), options_.phase},
      .model = state_.model(),
      .partition = {.mesh = state_.mesh(), .check = options_.check, .kernels = &runtime.kernels(), .natural = true},
      .traced = options_.executor != ExecutorKind::kEager};
  // Results that are written to entries take the placement of the entry, even if the program does not read it.
  for (const auto& [name, entry] : state_.entries()) options.partition.wanted[name] = entry.sharding;
  Program program([this](std::span<const Var> vars) { return RunBody(vars); }, options, std::move(infos));
  auto made = std::make_unique<Trace>(Trace{std::move(program), has_drawn_, nullptr});
  made->function = MakeFunction(made->program, state_, runtime, {.executor = options_.executor});
  return *(traces_[key] = std::move(made));
}

std::vector<DTensor> StateFunction::Call(const std::vector<DTensor>& arguments) {
  std::vector<Tensor> storage;
  for (size_t i = 0; i < arguments.size(); i++) {
    CheckArgument(i, arguments[i]);
    storage.push_back(arguments[i].Storage());
  }
  Trace& trace = TraceFor(arguments);
  has_drawn_ = trace.draws;  // with the eager executor, Run sets it again
  trace.function->Run(storage);
  if (has_drawn_) state_.CountCall();
  std::vector<DTensor> results;
  for (const Function::Result& r : trace.function->results())
    results.push_back(FromStorage(state_.session(), r.storage.Clone(), r.shape, r.sharding, {}, {"Compile", loc_}));
  return results;
}

}  // namespace weft
