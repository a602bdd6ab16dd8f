#include "weft/core/predict/batch_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "weft/core/base/hash.h"
#include "weft/core/compile/call_cost.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/passes/block.h"

namespace weft {
namespace {

// Returns "bf16 [4, 256, 768]", with the strides of dims that repeat their elements: "f32 [4 x0, 256]".
std::string TextOf(const TensorView& view) {
  std::string text = fmt::format("{} [", Name(view.dtype));
  for (int d = 0; d < view.rank; d++)
    text += fmt::format("{}{}{}", d ? ", " : "", view.dim(d).extent, view.dim(d).stride ? "" : " x0");
  return text + "]";
}

std::string TextOf(const Node& node, const KernelCall& call) {
  std::string text = fmt::format("{}(", Name(node.op));
  for (size_t i = 0; i < call.in.size(); i++) text += (i ? ", " : "") + TextOf(call.in[i]);
  text += ")";
  for (const TensorView& view : call.out) text += " " + TextOf(view);
  return fmt::format("{} {}", text, ToString(node.attrs));
}

// Returns the text of the first call, followed by the number of calls and a hash of all if there are several.
std::string NameOf(const Plan& plan, const PlannedCalls& calls, const PlannedCalls::Batch& batch) {
  auto text = [&](size_t i) { return TextOf(*plan.steps[i].node, calls.calls()[i]); };
  std::string name = text(batch.first);
  if (batch.count == 1) return name;
  StableHash hash;
  for (size_t i = 0; i < batch.count; i++) hash.Mix(text(batch.first + i));
  return fmt::format("{} and {} more, {:016x}", name, batch.count - 1, hash.value());
}

std::vector<std::string> ModulesOf(const Node& node) {
  std::vector<std::string> modules = absl::StrSplit(node.scope ? *node.scope : "", '.', absl::SkipEmpty());
  for (std::string& module : modules)
    if (IsBlockNumber(module)) module = "*";
  return modules;
}

// Returns the op, and the innermost module that all calls are in.
std::string PlaceOf(const Plan& plan, const PlannedCalls::Batch& batch) {
  std::vector<std::string> shared = ModulesOf(*plan.steps[batch.first].node);
  for (size_t i = batch.first + 1; i < batch.first + batch.count; i++) {
    std::vector<std::string> modules = ModulesOf(*plan.steps[i].node);
    shared.resize(size_t(std::ranges::mismatch(shared, modules).in1 - shared.begin()));
  }
  const char* op = Name(plan.steps[batch.first].node->op);
  return shared.empty() ? op : fmt::format("{} in {}", op, absl::StrJoin(shared, "."));
}

void AddTransfers(const Node& node, int ranks, BatchWork& work) {
  for (const GroupCall& call : GroupCallsOf(node, ranks)) {
    double bytes = double(call.bytes()) * (call.op == Op::kAllGather ? ranks : 1);
    auto same = [&](const BatchWork::Transfer& t) { return t.op == call.op; };
    auto found = std::find_if(work.transfers.begin(), work.transfers.end(), same);
    if (found == work.transfers.end())
      work.transfers.push_back({call.op, bytes});
    else
      found->bytes += bytes;
  }
}

WorkClass ClassOf(const Node& node, double flops) {
  if (node.op == Op::kSdpa || node.op == Op::kSdpaGrad) return WorkClass::kAttention;
  return flops > 0 ? WorkClass::kProduct : WorkClass::kMemory;
}

}  // namespace

const char* Name(WorkClass work) {
  switch (work) {
    case WorkClass::kProduct:
      return "product";
    case WorkClass::kAttention:
      return "attention";
    case WorkClass::kMemory:
      return "memory";
    case WorkClass::kCollective:
      return "collective";
  }
  Fail("a class of work without a name");
}

BatchWork WorkOf(const Plan& plan, const PlannedCalls& calls, const PlannedCalls::Batch& batch, const MeshShape& mesh,
                 const std::string& memory) {
  const Node& first = *plan.steps[batch.first].node;
  BatchWork work{.op = first.op, .dtype = first.inputs.empty() ? first.outputs[0].dtype : first.inputs[0].dtype()};
  work.name = NameOf(plan, calls, batch);
  work.place = PlaceOf(plan, batch);
  if (batch.axis) {
    work.kind = WorkClass::kCollective;
    work.ranks = mesh.sizes[size_t(*batch.axis)];
    work.name = fmt::format("{} of {}{}{}", work.name, work.ranks, memory.empty() ? "" : " in memory ", memory);
  }
  for (size_t i = batch.first; i < batch.first + batch.count; i++) {
    CallCost cost = CostOf(*plan.steps[i].node, calls.calls()[i]);
    work.flops += cost.flops;
    work.bytes += double(cost.bytes);
    if (batch.axis) AddTransfers(*plan.steps[i].node, int(work.ranks), work);
  }
  if (!batch.axis) work.kind = ClassOf(first, work.flops);
  return work;
}

BatchWork WorkOf(const Copy& copy) {
  BatchWork work{.dtype = copy.from.view.dtype, .bytes = 2 * double(copy.bytes)};
  work.name = fmt::format("copy {} bytes", copy.bytes);
  work.place = "copy at the end of a step";
  return work;
}

}  // namespace weft
