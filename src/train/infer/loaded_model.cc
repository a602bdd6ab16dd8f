#include "weft/train/infer/loaded_model.h"

#include "weft/core/base/memory.h"
#include "weft/dist/group/consensus.h"
#include "weft/train/config/model_of.h"
#include "weft/train/huggingface/initial_weights.h"
#include "weft/train/preflight/memory_check.h"

namespace weft {
namespace {

StepOptions OptionsFor(StepOptions options, const Context& context, DeviceKind device) {
  options.kernels = &context.kernels(device);
  options.model.precision.stored_as_used = true;
  return options;
}

}  // namespace

LoadedModel::LoadedModel(const Config& config, const StepOptions& options, std::vector<ForwardProgram> programs,
                         const Context& context, DeviceMesh& mesh, DeviceKind device)
    : config_(config),
      options_(OptionsFor(options, context, device)),
      mesh_(mesh),
      model_(ModelOf(config), options_.model),
      runtime_(RuntimeOf(context, mesh, device)),
      state_(mesh.shape(), mesh.coords(), runtime_.memory()),
      forward_(std::move(programs), model_.model(), ExecutorOf(config), options_, runtime_) {
  forward_.CheckSameOnRanks(mesh.World());
}

absl::Status LoadedModel::Load(const ModelSource& source) {
  MemoryNeed need = forward_.Need();
  need += MemoryNeedOf(model_.Entries(), mesh_.shape(), nullptr);
  if (absl::Status s = CheckMemory(need, config_, runtime_.memory(), mesh_.World()); !s.ok()) return s;
  AddEntries(state_, forward_.Entries());
  AddEntries(state_, model_.Entries());
  if (absl::Status s = FirstFault(mesh_.World(), SetParameters(source)); !s.ok()) return s;
  forward_.Bind(state_);
  return absl::OkStatus();
}

absl::Status LoadedModel::SetParameters(const ModelSource& source) {
  MemoryUse use("initial values");
  if (source.checkpoint) {
    absl::Status status = source.checkpoint->Load(state_);
    if (status.ok()) model_.RefreshCopies(state_, runtime_);
    return status;
  }
  absl::StatusOr<InitialWeights> weights = InitialWeights::Open(config_);
  if (absl::Status s = FirstFault(mesh_.World(), weights.status()); !s.ok()) return s;
  CheckSame(mesh_.World(), weights->Hash(),
            "has other weights in model.init than rank 0: compare the files with sha256sum");
  weights->Load(state_, model_, runtime_);
  return absl::OkStatus();
}

}  // namespace weft
