#include "core/compile/interpreter.h"

#include <fmt/format.h>

#include <cstring>

#include "absl/container/flat_hash_map.h"

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
    // All results are copied before any is stored: a write may be another entry's old value.
    std::map<std::string, Tensor> outputs;
    std::vector<Tensor> staged;
    for (const NamedValue& out : program_.graph.outputs) outputs[out.name] = At(out.value).Clone();
    for (const NamedValue& write : program_.graph.writes) staged.push_back(At(write.value).Clone());
    for (size_t i = 0; i < staged.size(); i++) {
      const NamedValue& write = program_.graph.writes[i];
      Tensor entry = bind_(write.name, write.value.node().outputs[size_t(write.value.index())]);
      std::memcpy(entry.data(), staged[i].data(), staged[i].bytes());
    }
    return outputs;
  }

 private:
  Tensor& At(const Var& v) {
    auto& list = values_[&v.node()];
    list.resize(v.node().outputs.size());
    return list[size_t(v.index())];
  }
  void Release(const Node& node) {
    if (--uses_[&node] == 0 && node.op != Op::kLeaf) values_.erase(&node);
  }

  void RunNode(const Node& node) {
    auto self = [&](size_t i) -> Tensor& {
      auto& list = values_[&node];
      list.resize(node.outputs.size());
      return list[i];
    };
    if (IsShapeOnly(node)) return;
    if (node.op == Op::kLeaf) {
      Tensor bound = bind_(node.attrs.Text("name"), node.outputs[0]);
      CheckBound(node, bound);
      self(0) = bound;
      return;
    }
    if (IsAlias(node)) {
      Tensor source = At(node.inputs[0]);
      self(0) = source.Reshaped(node.outputs[0].shape);
      return;
    }
    std::vector<TensorView> in, out;
    for (const Var& v : node.inputs)
      in.push_back(runtime_.View(v.node().outputs[size_t(v.index())], IsShapeOnly(v.node()) ? nullptr : At(v).data()));
    for (size_t i = 0; i < node.outputs.size(); i++) {
      self(i) = Tensor::Empty(node.outputs[i].dtype, node.outputs[i].shape);
      Poison(self(i).data(), self(i).bytes());
      out.push_back(runtime_.View(node.outputs[i], self(i).data()));
    }
    RunKernel(node, in, out);
    for (const TensorView& view : out) {
      if (options_.trap_nan) TrapNan(node, view);
    }
    if (!options_.print) return;
    ValueRange range = RangeOf(out[0]);
    fmt::print(stderr, "%{} {} {} {} in [{:.4g}, {:.4g}] {}\n", node.id, Name(node.op), Name(node.outputs[0].dtype),
               ToString(node.outputs[0].shape), range.low, range.high, node.scope ? *node.scope : "");
  }

  void RunKernel(const Node& node, const std::vector<TensorView>& in, const std::vector<TensorView>& out) {
    const KernelRow& row = runtime_.kernels().Row(node.op);
    KernelCall call{&node.attrs, in, out, nullptr, 0, runtime_.context, runtime_.mesh};
    BufferPtr workspace;
    if (row.workspace) {
      call.workspace_bytes = row.workspace(call);
      if (call.workspace_bytes) workspace = AllocateCpu(call.workspace_bytes);
      if (workspace) call.workspace = workspace->data();
      Poison(call.workspace, call.workspace_bytes);
    }
    row.run(call);
  }
  void Poison(void* data, size_t bytes) const {
    if (options_.poison && bytes > 0) std::memset(data, 0xFF, bytes);
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
