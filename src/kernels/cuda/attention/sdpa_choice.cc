#include "weft/kernels/cuda/attention/sdpa_choice.h"

#include <fmt/format.h>

#include <array>

#include "weft/core/host/small_file.h"
#include "weft/kernels/cuda/attention/sdpa_split.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/measure/sdpa_measure.h"
#include "weft/kernels/cuda/measure/sdpa_trial.h"

namespace weft::cuda {
namespace {

// The kernels with which flash computes a call.
struct FlashKernels {
  void (*forward)(const KernelCall&);
  void (*backward)(const KernelCall&);
  size_t (*forward_bytes)(int64_t head_size, bool options);  // bytes of shared memory
  size_t (*backward_bytes)(int64_t head_size, bool options);
};
FlashKernels FlashKernelsOf(const KernelCall& call) {
  if (IsHalf(call.in[0].dtype)) return {SdpaHalf, SdpaGradHalf, SdpaHalfSharedBytes, SdpaGradHalfSharedBytes};
  if (call.context->numerics().tf32) return {SdpaTf32, SdpaGradTf32, SdpaTf32SharedBytes, SdpaGradTf32SharedBytes};
  return {SdpaF32, SdpaGradF32, SdpaF32SharedBytes, SdpaGradF32SharedBytes};
}

std::string FlashRefuses(const KernelCall& call) {
  std::string reason = FlashRefusesShape(call);
  if (!reason.empty() || !call.context->Has(DeviceKind::kCuda)) return reason;
  FlashKernels kernels = FlashKernelsOf(call);
  size_t needs =
      (IsSdpaGrad(call) ? kernels.backward_bytes : kernels.forward_bytes)(call.in[0].dim(3).extent, HasOptions(call));
  size_t has = DeviceOf(call).shared_bytes();
  if (needs > has) return fmt::format("a block needs {} bytes of shared memory and this GPU has {}", needs, has);
  return {};
}
void Flash(const KernelCall& call) {
  SdpaSplit split(call);
  bool fits = split.takes && split.bytes <= call.workspace_bytes;
  fits ? SdpaFewQueries(call, split) : FlashKernelsOf(call).forward(call);
}
// Without a device, as in a plan, the call is for Hopper.
bool MayRunInOnePass(const KernelCall& call) { return !call.context->Has(DeviceKind::kCuda) || RunsInOnePass(call); }
bool FlashLeads(const KernelCall& call) { return SdpaOnePass(call).leads && MayRunInOnePass(call); }
size_t FlashBytes(const KernelCall& call) {
  return MayRunInOnePass(call) ? FlashWorkspace(call) : FlashTilesWorkspace(call);
}
void FlashGrad(const KernelCall& call) { FlashKernelsOf(call).backward(call); }

SdpaTable Backends() {
  static const std::array<SdpaKernels, 3> kBackends{kCudnnSdpa,
                                                    SdpaKernels{.backend = SdpaBackend::kFlash,
                                                                .refuses = FlashRefuses,
                                                                .workspace = FlashBytes,
                                                                .forward = Flash,
                                                                .backward = FlashGrad,
                                                                .leads = FlashLeads},
                                                    SdpaKernels{SdpaBackend::kPlain, PlainRefuses, SdpaRowsWorkspace,
                                                                SdpaPlain, SdpaGradPlain, kMostPlainOperations}};
  return kBackends;
}

// Returns "580.95.05", or the version of CUDA that the driver has if the host hides the file.
std::string DriverVersion() {
  std::string text = SmallFileText("/sys/module/nvidia/version");
  if (size_t end = text.find_first_of("\n"); end != std::string::npos) text.resize(end);
  if (!text.empty()) return text;
  int cuda = 0;
  WEFT_CUDA(cudaDriverGetVersion(&cuda));
  return fmt::format("of CUDA {}.{}", cuda / 1000, cuda % 1000 / 10);
}

// Raise it when kernels of flash get faster, so that times that were kept before do not count.
constexpr int kFlashRevision = 3;

// The state with which a device measures attention.
struct Measuring : SdpaMeasure {
  explicit Measuring(CudaDevice& device) : SdpaMeasure(Backends(), FileOf(device), TimeSdpa) {}

  static CacheFile FileOf(const CudaDevice& device) {
    std::string title = fmt::format("attention {}, driver {}, cuDNN {}, weft {}, flash {}", device.name(),
                                    DriverVersion(), CudnnVersion(), WEFT_VERSION, kFlashRevision);
    return CacheFile(CachePath(title), title + ", microseconds");
  }
};

size_t Workspace(const KernelCall& call) { return SdpaWorkspace(Backends(), call); }
std::string Explain(const KernelCall& call) { return ExplainSdpa(Backends(), call); }
void Run(const KernelCall& call) { ChooseSdpa(Backends(), call, call.workspace_bytes).Run(call); }
void Measure(const KernelCall& call) { DeviceOf(call).Kept<Measuring>()(call); }

}  // namespace

// On a device the choice, and with it the workspace, may differ from that of a plan.
void AddSdpa(KernelTable& table) {
  for (Op op : {Op::kSdpa, Op::kSdpaGrad}) {
    SetRun(table, op, &Run);
    KernelRow row = table.Row(op);
    row.workspace = &Workspace;
    row.explain = &Explain;
    row.measure = &Measure;
    table.Add(op, row);
  }
}

}  // namespace weft::cuda
