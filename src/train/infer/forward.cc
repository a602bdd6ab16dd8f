#include "weft/train/infer/forward.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/base/memory.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/compile/pipeline.h"
#include "weft/dist/group/consensus.h"
#include "weft/parallel/nn/kv_cache.h"

namespace weft {
namespace {

std::string NameOf(const ForwardProgram& program) {
  std::string name = program.phase == RandomPhase::kEval ? "eval" : "generate";
  if (*program.part) return fmt::format("{}.{}", name, program.part);
  return program.tokens ? fmt::format("{}.{}", name, program.tokens) : name;
}

// Returns host memory to which the device copies the tensor fast, if the host has such memory.
Tensor StagingFor(const Tensor& tensor, DeviceRuntime& device) {
  BufferPtr locked = device.TryAllocateStaging(tensor.bytes());
  if (!locked) return Tensor::Empty(tensor.dtype(), tensor.shape());
  return Tensor(locked, 0, tensor.dtype(), tensor.shape());
}

}  // namespace

Forward::Forward(std::vector<ForwardProgram> programs, Model& model, ExecutorKind executor, const StepOptions& options,
                 const Runtime& runtime)
    : programs_(std::move(programs)),
      runtime_(runtime),
      mesh_(options.model.mesh),
      how_{.executor = executor, .prints = options.print_ops && runtime.context->rank() == 0} {
  for (const ForwardProgram& program : programs_) {
    auto body = [trace = program.trace, &model, &options](std::span<const Var>) { return trace(model, options); };
    ProgramOptions how{.name = NameOf(program),
                       .random = {options.seed, program.phase},
                       .model = options.model,
                       .partition = options.partition()};
    traced_.push_back(std::make_unique<Program>(body, std::move(how)));
    if (executor == ExecutorKind::kCompiled)
      plans_.push_back(Compile(traced_.back()->local(), runtime, NameOf(program)));
  }
}

std::vector<EntryInfo> Forward::Entries() const {
  std::vector<EntryInfo> entries;
  auto add = [&](const EntryInfo& entry) {
    if (std::none_of(entries.begin(), entries.end(), [&](const EntryInfo& e) { return e.name == entry.name; }))
      entries.push_back(entry);
  };
  for (const ForwardProgram& program : programs_)
    for (const EntryInfo& slot : program.slots) add(slot);
  for (const auto& program : traced_)
    for (const auto& node : program->local().graph.nodes) {
      if (node->op != Op::kLeaf || !node->attrs.Text("name").starts_with(kCacheEntry)) continue;
      const ValueInfo& info = node->outputs[0];
      add({node->attrs.Text("name"), EntryKind::kCache, info.dtype, info.global, info.sharding});
    }
  return entries;
}

const Plan* Forward::LargestPlan() const {
  auto smaller = [](const Plan& a, const Plan& b) { return a.arena_bytes < b.arena_bytes; };
  return plans_.empty() ? nullptr : &*std::max_element(plans_.begin(), plans_.end(), smaller);
}

MemoryNeed Forward::Need() const { return MemoryNeedOf(Entries(), mesh_, LargestPlan()); }

uint64_t Forward::Hash() const {
  WEFT_CHECK(functions_.empty(), "forward: expected a hash before the programs are bound, got one afterwards");
  uint64_t hash = 0;
  for (const auto& program : traced_) hash = hash * 31 + CommHash(program->local());
  if (mesh_.num_ranks() == 1 || !ArrangesCollectives(runtime_)) return hash;
  for (const Plan& plan : plans_) hash = hash * 31 + CommHash(plan, runtime_);
  return hash;
}

void Forward::CheckSameOnRanks(ProcessGroup& world) const {
  CheckSame(world, Hash(),
            "would issue other collectives than rank 0, or in another order or in other groups: do all ranks run the "
            "same build?");
}

void Forward::Bind(State& state) {
  if (const Plan* largest = LargestPlan()) {
    MemoryUse use("activations");
    how_.arena = runtime_.memory().Allocate(largest->arena_bytes);
  }
  for (size_t i = 0; i < traced_.size(); i++) {
    FunctionOptions options = how_;
    if (!plans_.empty()) options.plan = std::move(plans_[i]);
    functions_.push_back(MakeFunction(*traced_[i], state, runtime_, std::move(options)));
  }
  plans_.clear();
}

const std::vector<Tensor>& Forward::Run(size_t program, size_t first) {
  Function& function = *functions_[program];
  function.Run();
  results_.resize(functions_.size());
  std::vector<Tensor>& results = results_[program];
  if (results.empty())
    for (const Function::Result& result : function.results())
      results.push_back(StagingFor(result.storage, runtime_.memory()));
  for (size_t i = first; i < results.size(); i++) {
    const Tensor& from = function.results()[i].storage;
    runtime_.memory().Copy(results[i].data(), from.data(), from.bytes());
  }
  runtime_.memory().Synchronize();
  return results;
}

}  // namespace weft
