// Compile: turns a C++ function over a State into a function that is traced once and then replayed.
//
//   auto step = Compile([&](Var x, Var y) { return SumAll(Relu(Einsum("bi,io->bo", x, state.Read("w"))) * y); },
//                       state);
//   DTensor loss = step(x, y);   // traced here, and again for other shapes, dtypes or placements
//
// The function takes Vars and returns a Var, or a pair, tuple or vector of Vars. The compiled function takes DTensors
// on the State's mesh, or Tensors that have the same values on every rank. It returns DTensors that the caller owns,
// with the placements that the sharding rules gave them. Modules that the function calls read their parameters from the
// State by name.
//
// Values from outside the function are read when it is traced. A number becomes a constant of the trace. A Tensor or a
// DTensor throws an Error that names the line, and so does a branch on a value. Gradients must be taken inside the
// function.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/parallel/program/function.h"

namespace weft {

struct CompileOptions {
  ExecutorKind executor = ExecutorKind::kCompiled;
  std::string name = "function";  // in messages and dumps
  RandomPhase phase = RandomPhase::kTrain;
  bool check = false;  // throw Error if a collective would be inserted that no Reshard asks for
};

// One function over one State. It holds one program per signature of the arguments.
class StateFunction {
 public:
  StateFunction(Program::Body body, State& state, CompileOptions options, Loc loc);
  ~StateFunction();

  std::vector<DTensor> Call(const std::vector<DTensor>& arguments);
  // Convert an argument of a call. Tensors become replicated DTensors.
  DTensor Argument(const DTensor& x) const { return x; }
  DTensor Argument(const Tensor& x) const;
  size_t num_traces() const { return traces_.size(); }

 private:
  struct Trace;
  Trace& TraceFor(const std::vector<DTensor>& arguments);
  void CheckArgument(size_t i, const DTensor& x) const;
  std::vector<NamedValue> RunBody(std::span<const Var> arguments);

  Program::Body body_;
  State& state_;
  CompileOptions options_;
  Loc loc_;
  bool has_drawn_ = false;  // whether the body drew random numbers when it was last traced or run
  std::map<std::string, std::unique_ptr<Trace>> traces_;  // by dtypes, shapes and placements
};

namespace internal {

// Converts between the return type of a function and lists of Vars and DTensors.
template <class Result>
struct Results {  // a pair or a tuple
  static std::vector<Var> Pack(Result result) {
    return std::apply([](auto... vars) { return std::vector<Var>{std::move(vars)...}; }, std::move(result));
  }
  static auto Unpack(std::vector<DTensor> values) {
    return [&]<size_t... i>(std::index_sequence<i...>) { return std::make_tuple(std::move(values[i])...); }
    (std::make_index_sequence<std::tuple_size_v<Result>>());
  }
};
template <>
struct Results<Var> {
  static std::vector<Var> Pack(Var result) { return {std::move(result)}; }
  static DTensor Unpack(std::vector<DTensor> values) { return std::move(values[0]); }
};
template <>
struct Results<std::vector<Var>> {
  static std::vector<Var> Pack(std::vector<Var> result) { return result; }
  static std::vector<DTensor> Unpack(std::vector<DTensor> values) { return values; }
};

// Whether a function that returns this type can be compiled.
template <class Result>
inline constexpr bool kIsResult = false;
template <>
inline constexpr bool kIsResult<Var> = true;
template <>
inline constexpr bool kIsResult<std::vector<Var>> = true;
template <class First, class Second>
inline constexpr bool kIsResult<std::pair<First, Second>> = std::is_same_v<First, Var>&& std::is_same_v<Second, Var>;
template <class... Vars>
inline constexpr bool kIsResult<std::tuple<Vars...>> = (std::is_same_v<Vars, Var> && ...);

template <class>
using VarFor = const Var&;

}  // namespace internal

template <class Fn>
class CompiledFunction {
 public:
  CompiledFunction(Fn fn, State& state, CompileOptions options, Loc loc)
      : fn_(std::make_shared<Fn>(std::move(fn))), state_(&state), options_(std::move(options)), loc_(loc) {}

  // All ranks of the State's mesh must call it, with arguments of the same signature.
  template <class... Args>
  auto operator()(const Args&... args) {
    constexpr bool kTakesThem = std::is_invocable_v<Fn&, internal::VarFor<Args>...>;
    static_assert(kTakesThem, "a compiled function is called with as many arguments as the function takes Vars");
    if constexpr (kTakesThem) {
      using Result = std::remove_cvref_t<std::invoke_result_t<Fn&, internal::VarFor<Args>...>>;
      constexpr bool kIsResult = internal::kIsResult<Result>;
      static_assert(kIsResult,
                    "a function that is compiled returns a Var, or a std::pair, std::tuple or std::vector of "
                    "Vars");
      if constexpr (kIsResult) {  // no further errors
        StateFunction& calls = Calls<Result, Args...>();
        return internal::Results<Result>::Unpack(calls.Call({calls.Argument(args)...}));
      }
    }
  }
  // Returns the number of programs that the calls so far have traced.
  size_t num_traces() const { return calls_ ? calls_->num_traces() : 0; }

 private:
  template <class Result, class... Args>
  StateFunction& Calls() {
    if (calls_) return *calls_;
    auto body = [fn = fn_, loc = loc_](std::span<const Var> vars) {
      WEFT_CHECK(vars.size() == sizeof...(Args),
                 "Compile at " + ToString(loc) + ": expected " + std::to_string(sizeof...(Args)) +
                     " arguments as in the first call, got " + std::to_string(vars.size()));
      std::vector<Var> results = [&]<size_t... i>(std::index_sequence<i...>) {
        return internal::Results<Result>::Pack((*fn)(vars[i]...));
      }
      (std::index_sequence_for<Args...>());
      std::vector<NamedValue> named;
      for (Var& result : results) named.push_back({"result." + std::to_string(named.size()), std::move(result)});
      return named;
    };
    calls_ = std::make_shared<StateFunction>(body, *state_, options_, loc_);
    return *calls_;
  }

  std::shared_ptr<Fn> fn_;
  State* state_;
  CompileOptions options_;
  Loc loc_;
  std::shared_ptr<StateFunction> calls_;
};

// The State and everything that the function refers to must outlive the result. The first call traces.
template <class Fn>
CompiledFunction<Fn> Compile(Fn fn, State& state, CompileOptions options = {}, Loc loc = Loc::current()) {
  return CompiledFunction<Fn>(std::move(fn), state, std::move(options), loc);
}

}  // namespace weft
