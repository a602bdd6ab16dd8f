#include "weft/core/compile/eager.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/base/shard.h"
#include "weft/core/runtime/run_with_workspace.h"

namespace weft {
namespace {
Tensor& TensorOf(const Var& local) { return local.node().values[size_t(local.index())]->tensor; }
}  // namespace

EagerBuilder::EagerBuilder(const Runtime& runtime, Binder bind, BuilderOptions options)
    : Builder(options),
      Partitioner({.mesh = runtime.mesh_shape, .kernels = &runtime.kernels()}),
      runtime_(runtime),
      bind_(std::move(bind)) {}

Placed& EagerBuilder::At(const Var& global) {
  auto& values = global.node().values;
  if (values.empty())
    for (size_t i = 0; i < global.node().outputs.size(); i++) values.push_back(std::make_shared<EagerValue>());
  return values[size_t(global.index())]->placed;
}

void EagerBuilder::Accept(const std::shared_ptr<Node>& node) {
  bool parameter = node->op == Op::kLeaf && node->attrs.IntOr("parameter", 0);
  node->requires_grad = parameter || (node->op != Op::kStopGradient &&
                                      std::any_of(node->inputs.begin(), node->inputs.end(),
                                                  [](const Var& in) { return in.node().requires_grad; }));
  Process(node);
  // Operands are kept for Grad only if a value to differentiate reaches the node. A lazy value needs its operands until
  // it is created.
  bool lazy = std::any_of(node->values.begin(), node->values.end(),
                          [](const auto& v) { return v->placed.lazy || v->placed.regather; });
  if (!node->requires_grad && !lazy) node->inputs.clear();
}

std::shared_ptr<Node> EagerBuilder::LocalNode(Op op, Attrs attrs, absl::InlinedVector<ValueInfo, 1> outputs) const {
  auto node = std::make_shared<Node>();
  node->op = op;
  node->attrs = std::move(attrs);
  node->outputs = std::move(outputs);
  for (size_t i = 0; i < node->outputs.size(); i++) node->values.push_back(std::make_shared<EagerValue>());
  return node;
}

std::shared_ptr<Node> EagerBuilder::EmitLocal(Op op, Attrs attrs, std::span<const Var> inputs,
                                              absl::InlinedVector<ValueInfo, 1> outputs, const Node& origin) {
  std::shared_ptr<Node> node = LocalNode(op, std::move(attrs), std::move(outputs));
  node->scope = origin.scope;
  node->loc = origin.loc;
  if (IsShapeOnly(*node)) return node;
  if (op == Op::kLeaf) {
    node->values[0]->tensor = bind_(node->attrs.Text("name"), node->outputs[0]);
    CheckBound(*node, node->values[0]->tensor);
    // An eager program may write the entry later while this value is still read, so the value is a copy.
    node->values[0]->tensor = node->values[0]->tensor.Clone();
  } else if (IsAlias(*node)) {
    node->values[0]->tensor = TensorOf(inputs[0]).Reshaped(node->outputs[0].shape);
  } else {
    RunKernel(*node, inputs);
  }
  return node;
}

void EagerBuilder::RunKernel(Node& node, std::span<const Var> inputs) {
  absl::InlinedVector<TensorView, 4> in, out;
  for (const Var& v : inputs)
    in.push_back(
        runtime_.View(v.node().outputs[size_t(v.index())], IsShapeOnly(v.node()) ? nullptr : TensorOf(v).data()));
  for (size_t i = 0; i < node.outputs.size(); i++) {
    node.values[i]->tensor = Tensor::Empty(node.outputs[i].dtype, node.outputs[i].shape, runtime_.memory());
    out.push_back(runtime_.View(node.outputs[i], node.values[i]->tensor.data()));
  }
  RunWithWorkspace(runtime_.kernels().Row(node.op), CallOf(node, in, out, runtime_),
                   [this](size_t bytes) { return runtime_.memory().Allocate(bytes); });
}

Var EagerBuilder::FromLocal(Tensor local, const Shape& global, const Sharding& sharding, bool requires_grad) {
  Attrs attrs{
      {"name", ""}, {"dtype", int(local.dtype())}, {"shape", global}, {"placement", sharding}, {"parameter", 0}};
  auto node = std::make_shared<Node>();
  node->op = Op::kLeaf;
  node->attrs = attrs;
  node->outputs.push_back({local.dtype(), global, {}, {}});
  node->requires_grad = requires_grad;
  node->id = -1;  // lower than the id of any node that can read it
  CheckShardDims(*node, global, sharding);
  Sharding resolved = Resolve(sharding, Sharding(runtime_.mesh_shape.num_axes()));
  ValueInfo info{local.dtype(), ChunkShape(global, resolved, runtime_.mesh_shape), global, resolved};
  WEFT_CHECK(info.shape == local.shape(),
             fmt::format("FromLocal: the chunk of {} placed {} is {}, got {}", ToString(global), ToString(resolved),
                         ToString(info.shape), ToString(local.shape())));
  WEFT_CHECK(local.device().kind == runtime_.device,
             fmt::format("FromLocal: expected a tensor on {}, where this program runs, got one on {}; move it with To",
                         Name(runtime_.device), Name(local.device().kind)));
  std::shared_ptr<Node> held = LocalNode(Op::kLeaf, attrs, {info});
  held->values[0]->tensor = std::move(local);
  Var value(node, 0);
  Placed& placed = At(value);
  placed.sharding = resolved;
  placed.versions.push_back({resolved, Phase::kForward, Var(held, 0)});
  return value;
}

Tensor EagerBuilder::ToLocal(const Var& value, const Sharding& want) {
  CheckShardDims(value.node(), value.shape(), want);
  Var local = Whole(value, Resolve(want, At(value).sharding), value.node());
  return TensorOf(local);
}

double EagerBuilder::ItemOf(const Var& value, const Loc& loc) {
  WEFT_CHECK(NumElements(value.shape()) == 1,
             fmt::format("{}: expected a tensor of one element, got {}; FullTensor().ToDoubles() returns all, and "
                         "SumAll reduces them to one",
                         weft::ToString(loc), weft::ToString(value.shape())));
  Tensor local = ToLocal(value, Sharding(runtime_.mesh_shape.num_axes()));
  return local.Reshaped({}).To(CpuRuntime()).Item();
}

Var EagerBuilder::Constant(const Tensor& tensor, const Loc& loc) {
  WEFT_CHECK(tensor.defined(), fmt::format("{}: expected a tensor, got an empty one", weft::ToString(loc)));
  Var value = FromLocal(tensor.To(runtime_.memory()), tensor.shape(), Sharding(runtime_.mesh_shape.num_axes()));
  value.node().loc = loc;
  return value;
}

void EagerBuilder::Write(const std::string& entry, const Var& value, const Sharding& stored) {
  Sharding sharding = Resolve(stored, At(value).sharding);
  Tensor source = ToLocal(value, sharding);
  ValueInfo info{value.dtype(), source.shape(), value.shape(), sharding};
  Tensor target = bind_(entry, info);
  WEFT_CHECK(target.bytes() == source.bytes(), fmt::format("write \"{}\": the entry is {}, the value {}", entry,
                                                           ToString(target.shape()), ToString(source.shape())));
  runtime_.memory().Copy(target.data(), source.data(), source.bytes());
}

}  // namespace weft
