#include "weft/parallel/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/core/compile/pipeline.h"
#include "weft/core/ir/product_flops.h"
#include "weft/core/ops/leaf.h"

namespace weft {
namespace {
thread_local EntryScope* current = nullptr;
}  // namespace

Program::Program(Body body, ProgramOptions options, std::vector<ValueInfo> arguments)
    : body_(std::move(body)), options_(std::move(options)), arguments_(std::move(arguments)) {
  if (!options_.traced) return;
  TraceBuilder trace(options_.random);
  trace.RefuseEagerValues();
  BuilderScope builder(trace);
  ModelScope model(options_.model);
  EntryScope entries;
  std::vector<Var> leaves;
  for (size_t i = 0; i < arguments_.size(); i++)
    leaves.push_back(Leaf(ArgumentName(i), arguments_[i].dtype, arguments_[i].shape, arguments_[i].sharding));
  std::vector<NamedValue> outputs = body_(leaves);
  Graph graph = trace.Finish(std::move(outputs), entries.TakeWrites());
  global_nodes_ = graph.nodes.size();
  for (const auto& node : graph.nodes) product_flops_ += ProductFlops(*node);
  local_ = Lower(graph, options_.partition, options_.name);
}

std::string Program::ArgumentName(size_t i) { return fmt::format("argument.{}", i); }

std::vector<NamedValue> Program::RunEagerly(EagerBuilder& eager, State& state, std::span<const Var> arguments) const {
  BuilderScope builder(eager);
  ModelScope model(options_.model);
  EntryScope entries(eager, state);
  return body_(arguments);
}

EntryScope::EntryScope() : outer_(std::exchange(current, this)) {}
EntryScope::EntryScope(EagerBuilder& eager, State& state)
    : eager_(&eager), state_(&state), outer_(std::exchange(current, this)) {}
EntryScope::~EntryScope() { current = outer_; }
EntryScope* EntryScope::Current() { return current; }

void EntryScope::Write(const std::string& entry, const Var& value) {
  if (eager_) {
    eager_->Write(entry, value, state_->At(entry).sharding);
    return ModelScope::Current().SetWritten(entry, {});
  }
  ModelScope::Current().SetWritten(entry, value);
  auto [written, is_first] = place_of_.try_emplace(entry, writes_.size());
  if (is_first)
    writes_.push_back({entry, value});
  else
    writes_[written->second].value = value;
}

std::vector<NamedValue> EntryScope::TakeWrites() {
  place_of_.clear();
  return std::exchange(writes_, {});
}

Var EntryScope::Written(const std::string& entry) const {
  auto written = place_of_.find(entry);
  return written == place_of_.end() ? Var() : writes_[written->second].value;
}

void WriteEntry(const std::string& entry, const Var& value, Loc loc) {
  WEFT_CHECK(current,
             fmt::format("{}: an entry of a State is written inside of a function that is compiled or run over "
                         "it; pass the function to Compile",
                         ToString(loc)));
  current->Write(entry, value);
}

}  // namespace weft
