#include "weft/parallel/step/sharded_model.h"

#include "weft/core/compile/eager.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

Var InitialValue(const Parameter& p, DType dtype) {
  if (p.init().kind == ParameterInit::kNormal) return Scale(RandomNormal(dtype, p.shape()), p.init().std);
  return Full(p.init().kind == ParameterInit::kOnes ? 1 : 0, dtype, p.shape());
}

}  // namespace

std::vector<EntryInfo> ParameterEntries(const Module& model, const ModelScope::Options& options) {
  ModelScope scope(options);
  std::vector<EntryInfo> entries;
  for (const Parameter* p : model.Parameters()) {
    entries.push_back({p->path(), EntryKind::kParameter, p->stored_dtype(), p->shape(), scope.Stored(*p)});
    if (scope.HasCopy(*p))
      entries.push_back({CopyName(p->path()), EntryKind::kCopy, p->used_dtype(), p->shape(), scope.Copied(*p)});
  }
  return entries;
}

void InitParameters(const Module& model, const ModelScope::Options& options, State& state, uint64_t seed,
                    const Runtime& runtime) {
  ModelScope scope(options);
  Sharding replicated(options.mesh.num_axes());
  for (const Parameter* p : model.Parameters()) {
    EagerBuilder eager(runtime, state.binder(), {seed, RandomPhase::kInit});
    BuilderScope builder(eager);
    ModuleScope path(p->path());
    eager.step = eager.first_row = eager.FromLocal(Tensor::Scalar(0, DType::kI64).To(runtime.memory()), {}, replicated);
    Var value = Cast(InitialValue(*p, options.precision.params), p->stored_dtype());
    eager.Write(p->path(), value, scope.Stored(*p));
    if (scope.HasCopy(*p)) eager.Write(CopyName(p->path()), Cast(value, p->used_dtype()), scope.Copied(*p));
  }
}

void RefreshCopies(const Module& model, const ModelScope::Options& options, State& state, const Runtime& runtime) {
  ModelScope scope(options);
  for (const Parameter* p : model.Parameters()) {
    if (!scope.HasCopy(*p)) continue;
    EagerBuilder eager(runtime, state.binder());
    BuilderScope builder(eager);
    Var value = eager.FromLocal(state.At(p->path()).local, p->shape(), scope.Stored(*p));
    eager.Write(CopyName(p->path()), Cast(value, p->used_dtype()), scope.Copied(*p));
  }
}

}  // namespace weft
