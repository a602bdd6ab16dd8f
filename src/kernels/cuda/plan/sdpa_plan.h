// The attention backends on CUDA, and which of them takes a call. Host code without CUDA. A plan chooses by shapes and
// dtypes. A run also asks the device (attention/sdpa_choice.cc) and sets the backends' functions.
//
// The candidates of a call are those that its SdpaBackends allow and that do not refuse it. The choice among them:
// 1. The backend that the context's numerics name, or else the one in WEFT_SDPA, which tests set. No time counts then.
// 2. With kernels.deterministic, one that leads, or else the first in the order of the table.
// 3. The fastest, if the context has the times of all (sdpa_measure.h), else as with kernels.deterministic. Without the
//    device, as in `weft plan`, the choice stays open.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "weft/core/ops/sdpa_backends.h"
#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

struct SdpaKernels {
  SdpaBackend backend;
  // Returns why it cannot or may not run this call, for example "head size 100 is not a multiple of 8"; empty if it
  // can.
  std::string (*refuses)(const KernelCall&);
  size_t (*workspace)(const KernelCall&);        // bytes, for either pass
  void (*forward)(const KernelCall&) = nullptr;  // null in plans, as is backward
  void (*backward)(const KernelCall&) = nullptr;
  // It is no candidate for the fastest in calls of more operations, as SdpaOperations counts them.
  double most_operations = std::numeric_limits<double>::infinity();
  // Whether it comes first where no time counts, as it takes less than the others; null: never.
  bool (*leads)(const KernelCall&) = nullptr;

  void Run(const KernelCall& call) const { (IsSdpaGrad(call) ? backward : forward)(call); }
};
using SdpaTable = std::span<const SdpaKernels>;  // in order of preference

// `plain` uses no tensor cores and reads each key once per query. A call of this many operations takes the others less
// time than a launch, so above it `plain` cannot win, and timing it would take seconds.
inline constexpr double kMostPlainOperations = double(1 << 28);

// cudnn, flash and plain as far as shapes and dtypes decide.
SdpaTable PlannedSdpa();

// Returns the backend that runs the call. Throws Error, with the user's line and each backend's reason, if none takes
// it. `scratch` is the bytes of workspace that the backend may use, or SIZE_MAX while the workspace is being planned.
const SdpaKernels& ChooseSdpa(SdpaTable table, const KernelCall& call, size_t scratch);
// Returns which backend runs the call and why, for example "plain (cudnn: f64 is neither bf16 nor f16; flash: ...)",
// "flash (412 us; cudnn: 530 us)", or "cudnn or flash, whichever takes less time on the GPU". One that leads is
// "flash in one pass".
std::string ExplainSdpa(SdpaTable table, const KernelCall& call);
// Returns the bytes that the choice needs; if it is open, the most that a candidate needs.
size_t SdpaWorkspace(SdpaTable table, const KernelCall& call);

// Returns the backends among which times decide, in the order of the table. Returns none if times do not count, or if
// there are fewer than two.
std::vector<const SdpaKernels*> SdpaContenders(SdpaTable table, const KernelCall& call, size_t scratch = SIZE_MAX);
// Returns the call as a key of BackendTimes. It is the same on all ranks: it has the size of a whole chunk.
std::string SdpaKey(const KernelCall& call);
// Returns multiplications and additions of the call without its masks. It is the same on all ranks, as SdpaKey.
double SdpaOperations(const KernelCall& call);

// Return why shapes, dtypes and options rule the backend out, or an empty string if they do not.
std::string FlashRefusesShape(const KernelCall& call);
std::string PlainRefuses(const KernelCall& call);
// The bytes of the sums of dq in f32 if flash adds them up in any order.
size_t QuerySumBytes(const KernelCall& call);
// The workspace of plain in bytes, the rows of the backward pass; that of flash, which has sums and ranges of segments
// too; and that of flash where no gradient runs in one pass.
size_t SdpaRowsWorkspace(const KernelCall& call);
size_t FlashWorkspace(const KernelCall& call);
size_t FlashTilesWorkspace(const KernelCall& call);

}  // namespace weft::cuda
