#include "weft/parallel/step/sharded_model.h"

#include "weft/core/compile/eager.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

Var InitialValue(const Parameter& p, DType dtype) {
  if (p.init().kind == Init::kNormal) return Scale(RandomNormal(dtype, p.shape()), p.init().std);
  return Full(p.init().kind == Init::kOnes ? 1 : 0, dtype, p.shape());
}

}  // namespace

std::vector<EntryInfo> ShardedModel::Entries() const {
  ModelScope scope(options_);
  std::vector<EntryInfo> entries;
  for (const Parameter* p : model_->Parameters()) {
    entries.push_back({p->path(), EntryKind::kParameter, options_.precision.params, p->shape(), scope.Stored(*p)});
    if (HasCopies())
      entries.push_back({CopyName(p->path()), EntryKind::kCopy, p->used_dtype(), p->shape(), scope.Used(*p)});
  }
  return entries;
}

void ShardedModel::Init(State& state, uint64_t seed, const Runtime& runtime) const {
  ModelScope scope(options_);
  Sharding replicated(options_.mesh.num_axes());
  for (const Parameter* p : model_->Parameters()) {
    EagerBuilder eager(runtime, state.binder(), {seed, RandomPhase::kInit});
    BuilderScope builder(eager);
    ModuleScope path(p->path());
    eager.step = eager.first_row = eager.FromLocal(Tensor::Scalar(0, DType::kI64).To(runtime.memory()), {}, replicated);
    Var value = InitialValue(*p, options_.precision.params);
    eager.Write(p->path(), value, scope.Stored(*p));
    if (HasCopies()) eager.Write(CopyName(p->path()), Cast(value, p->used_dtype()), scope.Used(*p));
  }
}

void ShardedModel::RefreshCopies(State& state, const Runtime& runtime) const {
  if (!HasCopies()) return;
  ModelScope scope(options_);
  for (const Parameter* p : model_->Parameters()) {
    EagerBuilder eager(runtime, state.binder());
    BuilderScope builder(eager);
    Var value = eager.FromLocal(state.At(p->path()).local, p->shape(), scope.Stored(*p));
    eager.Write(CopyName(p->path()), Cast(value, p->used_dtype()), scope.Used(*p));
  }
}

}  // namespace weft
