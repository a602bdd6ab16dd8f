#include "weft/core/compile/interpreter.h"

#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "weft/core/host/message.h"

namespace weft {
namespace {

class Interpreter {
 public:
  Interpreter(const LocalProgram& program, const Runtime& runtime, const Binder& bind, const InterpretOptions& options)
      : program_(program), runtime_(runtime), bind_(bind), options_(options) {
    for (const auto& node : program.graph.nodes)
      for (const Var& in : node->inputs) uses_[&in.node()]++;
    for (auto* list : {&program.graph.outputs, &program.graph.writes})
      for (const NamedValue& named : *list) uses_[&named.value.node()]++;
  }

  std::map<std::string, Tensor> Run() {
    for (const auto& node : program_.graph.nodes) {
      RunNode(*node);
      for (const Var& in : node->inputs) Release(in.node());
    }
    // All results are copied before any is stored, because a write may be the old value of another entry.
    std::map<std::string, Tensor> outputs;
    std::vector<Tensor> staged;
    for (const NamedValue& out : program_.graph.outputs) outputs[out.name] = At(out.value).Clone();
    for (const NamedValue& write : program_.graph.writes) staged.push_back(At(write.value).Clone());
    for (size_t i = 0; i < staged.size(); i++) {
      const NamedValue& write = program_.graph.writes[i];
      Tensor entry = bind_(write.name, write.value.node().outputs[size_t(write.value.index())]);
      runtime_.memory().Copy(entry.data(), staged[i].data(), staged[i].bytes());
    }
    return outputs;
  }

 private:
  Tensor& At(const Var& v) { return values_.at(&v.node())[size_t(v.index())]; }
  void Release(const Node& node) {
    if (--uses_[&node] == 0 && node.op != Op::kLeaf) values_.erase(&node);
  }

  void RunNode(const Node& node) {
    if (IsShapeOnly(node)) return;
    std::vector<Tensor>& results = values_[&node];
    results.resize(node.outputs.size());
    if (node.op == Op::kLeaf) {
      results[0] = bind_(node.attrs.Text("name"), node.outputs[0]);
      CheckBound(node, results[0]);
    } else if (IsAlias(node)) {
      results[0] = At(node.inputs[0]).Reshaped(node.outputs[0].shape);
    } else {
      RunKernel(node, results);
      if (options_.trap_nan || options_.print) Inspect(node, results);
    }
  }

  void RunKernel(const Node& node, std::vector<Tensor>& results) {
    absl::InlinedVector<TensorView, 4> in, out;
    for (const Var& v : node.inputs)
      in.push_back(runtime_.View(v.node().outputs[size_t(v.index())], IsShapeOnly(v.node()) ? nullptr : At(v).data()));
    for (size_t i = 0; i < node.outputs.size(); i++) {
      results[i] = Tensor::Empty(node.outputs[i].dtype, node.outputs[i].shape, runtime_.memory());
      Poison(results[i].data(), results[i].bytes());
      out.push_back(runtime_.View(node.outputs[i], results[i].data()));
    }
    Run(node.op, CallOf(node, in, out, runtime_));
  }

  void Run(Op op, KernelCall call) {
    const KernelRow& row = runtime_.kernels().Row(op);
    BufferPtr workspace;
    if (row.workspace) {
      call.workspace_bytes = row.workspace(call);
      if (call.workspace_bytes) workspace = runtime_.memory().Allocate(call.workspace_bytes);
      if (workspace) call.workspace = workspace->data();
      Poison(call.workspace, call.workspace_bytes);
    }
    row.run(call);
  }

  // The sum of squares is NaN if an element is. So the host fetches one number instead of all elements.
  bool MayHoldNan(const ValueInfo& info, const Tensor& result) {
    if (!IsFloating(info.dtype)) return false;
    Tensor sum = Tensor::Empty(AccumulateType(info.dtype), {}, runtime_.memory());  // []
    TensorView in = runtime_.View(info, result.data()), out = MakeView(sum.data(), sum.dtype(), {});
    static const Attrs none;
    Run(Op::kSumOfSquares, {&none, std::span(&in, 1), std::span(&out, 1), nullptr, 0, runtime_.context, runtime_.mesh});
    return std::isnan(sum.Item());
  }

  void Inspect(const Node& node, const std::vector<Tensor>& results) {
    for (size_t i = 0; i < results.size(); i++) {
      if (!options_.print && runtime_.device != DeviceKind::kCpu && !MayHoldNan(node.outputs[i], results[i])) continue;
      bool on_host = results[i].device().kind == DeviceKind::kCpu;
      Tensor host = on_host ? results[i] : results[i].To(CpuRuntime());
      TensorView view = runtime_.View(node.outputs[i], host.data());
      if (options_.trap_nan) TrapNan(node, view);
      if (options_.print && i == 0) Print(node, RangeOf(view));
    }
  }
  static void Print(const Node& node, const ValueRange& range) {
    PrintStderr("%{} {} {} {} in [{:.4g}, {:.4g}] {}\n", node.id, Name(node.op), Name(node.outputs[0].dtype),
                ToString(node.outputs[0].shape), range.low, range.high, node.scope ? *node.scope : "");
  }
  void Poison(void* data, size_t bytes) const {
    if (options_.poison && bytes > 0) runtime_.memory().Fill(data, 0xFF, bytes);
  }

  const LocalProgram& program_;
  const Runtime& runtime_;
  const Binder& bind_;
  const InterpretOptions& options_;
  absl::flat_hash_map<const Node*, int> uses_;
  absl::flat_hash_map<const Node*, std::vector<Tensor>> values_;
};

}  // namespace

std::map<std::string, Tensor> Interpret(const LocalProgram& program, const Runtime& runtime, const Binder& bind,
                                        const InterpretOptions& options) {
  return Interpreter(program, runtime, bind, options).Run();
}

}  // namespace weft
