#include "support/rank_run.h"

#include "weft/core/base/rng.h"
#include "weft/dist/group/mesh.h"

namespace weft::testing_ {

void FillSlots(State& state, const StepOptions& o, int64_t global_batch, int64_t vocab, int step, int micro) {
  int64_t first = micro * o.rows;
  state.SetScalar(entry::kFirstRow, double(first));
  TensorView view = state.View(entry::kTokens);
  const Tensor &token_slot = state.At(entry::kTokens).local, &target_slot = state.At(entry::kTargets).local;
  bool on_cpu = token_slot.device().kind == DeviceKind::kCpu;
  Tensor host_tokens = on_cpu ? token_slot : Tensor::Zeros(DType::kI32, token_slot.shape());
  Tensor host_targets = on_cpu ? target_slot : Tensor::Zeros(DType::kI32, target_slot.shape());
  auto *tokens = host_tokens.as<int32_t>(), *targets = host_targets.as<int32_t>();
  for (int64_t r = 0; r < view.dim(0).extent; r++) {
    int64_t row = first + view.dim(0).offset + r;
    for (int64_t t = 0; t < o.tokens; t++) {
      auto draw = [&](int64_t at) {
        return int32_t(Philox(99, uint64_t(step), uint64_t(row * 1000 + at))[0] % uint64_t(vocab));
      };
      tokens[r * o.tokens + t] = row < global_batch ? draw(t) : 0;
      bool ignored = row >= global_batch || (row % 3 == 1 && t % 2 == 0);
      targets[r * o.tokens + t] = ignored ? -100 : (draw(t) * 3 + 1) % int32_t(vocab);
    }
  }
  if (on_cpu) return;
  state.device().Copy(token_slot.data(), tokens, host_tokens.bytes());
  state.device().Copy(target_slot.data(), targets, host_targets.bytes());
  state.device().Synchronize();
}

RankRun::RankRun(const Job& j, const Layout& layout, Context& context, DeviceMesh& mesh)
    : job(j),
      training(job.model, OptionsOf(job, layout)),
      options(training.options()),
      runtime(RuntimeOf(context, mesh, layout.device)),
      state(options.model.mesh, mesh.coords(), runtime.memory()) {
  training.AddEntries(state);
  training.InitParameters(state, runtime);
  runner = MakeRunner(layout.executor, state, training, runtime);
}

StepMetrics RankRun::Step(int step, int update) {
  state.SetScalar(entry::kLr, 1e-3);
  state.SetScalar(entry::kStep, step);
  state.SetScalar(entry::kUpdates, update);
  return runner->Step([&](int j) {
    Fill(step, j);
    if (before_update && j + 1 == options.micro_steps) before_update();
  });
}

}  // namespace weft::testing_
