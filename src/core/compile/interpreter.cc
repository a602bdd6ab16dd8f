#include "weft/core/compile/interpreter.h"

#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "weft/core/host/message.h"
#include "weft/core/runtime/run_with_workspace.h"

namespace weft {

InterpretPlan::InterpretPlan(const LocalProgram& local) : program(local) {
  const Graph& graph = local.graph;
  absl::flat_hash_map<const Node*, int> first;  // number of each node's first result
  first.reserve(graph.nodes.size());
  auto number = [&](const Var& v) { return first.at(&v.node()) + v.index(); };
  steps.reserve(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    Step& step = steps.emplace_back(Step{node.get(), num_values, {}});
    for (const Var& in : node->inputs) step.operands.push_back(number(in));
    first[node.get()] = num_values;
    num_values += int(node->outputs.size());
  }
  for (const NamedValue& out : graph.outputs) outputs.push_back(number(out.value));
  for (const NamedValue& write : graph.writes) writes.push_back(number(write.value));

  std::vector<bool> read(static_cast<size_t>(num_values));  // by a later step or at the end
  for (auto* list : {&outputs, &writes})
    for (int value : *list) read[size_t(value)] = true;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    auto release = [&](int value) {
      if (!read[size_t(value)]) step->released.push_back(value);
      read[size_t(value)] = true;
    };
    for (size_t i = 0; i < step->node->outputs.size(); i++) release(step->result + int(i));
    for (int operand : step->operands) release(operand);
  }
}

Interpreter::Interpreter(const Runtime& runtime, Binder bind, const InterpretOptions& options)
    : runtime_(runtime), bind_(std::move(bind)), options_(options) {}

void Interpreter::Begin(const InterpretPlan& plan) {
  plan_ = &plan;
  for (Value& value : values_) value.tensor = {};
  if (values_.size() < size_t(plan.num_values)) values_.resize(size_t(plan.num_values));
}

void Interpreter::Run(const InterpretPlan::Step& step) {
  const Node& node = *step.node;
  Value& result = At(step.result);
  if (IsShapeOnly(node)) {
    result.view = runtime_.View(node.outputs[0], nullptr);
  } else if (node.op == Op::kLeaf) {
    result.tensor = bind_(node.attrs.Text("name"), node.outputs[0]);
    CheckBound(node, result.tensor);
    result.view = runtime_.View(node.outputs[0], result.tensor.data());
  } else if (IsAlias(node)) {
    result.tensor = At(step.operands[0]).tensor.Reshaped(node.outputs[0].shape);
    result.view = runtime_.View(node.outputs[0], result.tensor.data());
  } else {
    RunKernel(step);
    if (options_.trap_nan || options_.print) Inspect(step);
  }
}

void Interpreter::Release(const InterpretPlan::Step& step) {
  for (int value : step.released) At(value).tensor = {};
}

std::map<std::string, Tensor> Interpreter::Finish() {
  // All results are copied before any is stored, because a write may be the old value of another entry.
  const Graph& graph = plan_->program.graph;
  std::map<std::string, Tensor> outputs;
  std::vector<Tensor> staged;
  staged.reserve(plan_->writes.size());
  for (size_t i = 0; i < graph.outputs.size(); i++) outputs[graph.outputs[i].name] = Output(i).Clone();
  for (int value : plan_->writes) staged.push_back(At(value).tensor.Clone());
  for (size_t i = 0; i < staged.size(); i++) {
    const NamedValue& write = graph.writes[i];
    Tensor entry = bind_(write.name, write.value.node().outputs[size_t(write.value.index())]);
    runtime_.memory().Copy(entry.data(), staged[i].data(), staged[i].bytes());
  }
  return outputs;
}

void Interpreter::RunKernel(const InterpretPlan::Step& step) {
  const Node& node = *step.node;
  absl::InlinedVector<TensorView, 8> in, out;
  for (int operand : step.operands) in.push_back(At(operand).view);
  for (size_t i = 0; i < node.outputs.size(); i++) {
    Value& result = At(step.result + int(i));
    result.tensor = Tensor::Empty(node.outputs[i].dtype, node.outputs[i].shape, runtime_.memory());
    Poison(result.tensor.data(), result.tensor.bytes());
    result.view = runtime_.View(node.outputs[i], result.tensor.data());
    out.push_back(result.view);
  }
  RunRow(node.op, CallOf(node, in, out, runtime_));
}

void Interpreter::RunRow(Op op, KernelCall call) const {
  RunWithWorkspace(runtime_.kernels().Row(op), call, [this](size_t bytes) {
    BufferPtr workspace = runtime_.memory().Allocate(bytes);
    Poison(workspace->data(), bytes);
    return workspace;
  });
}

// The sum of squares is NaN if an element is. So the host fetches one number instead of all elements.
bool Interpreter::MayHoldNan(const ValueInfo& info, const Tensor& result) const {
  if (!IsFloating(info.dtype)) return false;
  Tensor sum = Tensor::Empty(AccumulateType(info.dtype), {}, runtime_.memory());  // []
  TensorView in = runtime_.View(info, result.data()), out = MakeView(sum.data(), sum.dtype(), {});
  static const Attrs none;
  RunRow(Op::kSumOfSquares,
         {&none, std::span(&in, 1), std::span(&out, 1), nullptr, 0, runtime_.context, runtime_.mesh});
  return std::isnan(sum.Item());
}

namespace {
void PrintRange(const Node& node, const ValueRange& range) {
  PrintStderr("%{} {} {} {} in [{:.4g}, {:.4g}] {}\n", node.id, Name(node.op), Name(node.outputs[0].dtype),
              ToString(node.outputs[0].shape), range.low, range.high, node.scope ? *node.scope : "");
}
}  // namespace

void Interpreter::Inspect(const InterpretPlan::Step& step) const {
  const Node& node = *step.node;
  for (size_t i = 0; i < node.outputs.size(); i++) {
    const Tensor& result = At(step.result + int(i)).tensor;
    if (!options_.print && runtime_.device != DeviceKind::kCpu && !MayHoldNan(node.outputs[i], result)) continue;
    bool on_host = result.device().kind == DeviceKind::kCpu;
    Tensor host = on_host ? result : result.To(CpuRuntime());
    TensorView view = runtime_.View(node.outputs[i], host.data());
    if (options_.trap_nan) TrapNan(node, view);
    if (options_.print && i == 0) PrintRange(node, RangeOf(view));
  }
}

void Interpreter::Poison(void* data, size_t bytes) const {
  if (options_.poison && bytes > 0) runtime_.memory().Fill(data, 0xFF, bytes);
}

std::map<std::string, Tensor> Interpret(const LocalProgram& program, const Runtime& runtime, const Binder& bind,
                                        const InterpretOptions& options) {
  InterpretPlan plan(program);
  Interpreter interpreter(runtime, bind, options);
  interpreter.Begin(plan);
  for (const InterpretPlan::Step& step : plan.steps) {
    interpreter.Run(step);
    interpreter.Release(step);
  }
  return interpreter.Finish();
}

}  // namespace weft
