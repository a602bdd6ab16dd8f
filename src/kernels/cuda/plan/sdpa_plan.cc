#include "weft/kernels/cuda/plan/sdpa_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "weft/core/runtime/backend_times.h"
#include "weft/kernels/common/cache_file.h"
#include "weft/kernels/common/sdpa_refusal.h"
#include "weft/kernels/cuda/plan/cudnn_sizes.h"

namespace weft::cuda {
namespace {

// A plan is for Hopper.
bool OnePassLeads(const KernelCall& call) { return SdpaOnePass(call).leads; }

constexpr SdpaKernels kPlanned[] = {
    {.backend = SdpaBackend::kCudnn, .refuses = CudnnRefusesShape, .workspace = CudnnExpectedWorkspace},
    {.backend = SdpaBackend::kFlash, .refuses = FlashRefusesShape, .workspace = FlashWorkspace, .leads = OnePassLeads},
    {.backend = SdpaBackend::kPlain,
     .refuses = PlainRefuses,
     .workspace = SdpaRowsWorkspace,
     .most_operations = kMostPlainOperations}};

// Times within this factor count as equal, because repeated measurements differ by as much. The order of the table then
// decides, so that jobs of one GPU rarely differ.
constexpr double kEqual = 1.02;

// Returns the backend that kernels.attention names, or else the one of WEFT_SDPA, which tests set. Returns null if
// neither is set. Throws Error if there is no such backend.
const SdpaKernels* Preferred(SdpaTable table, const KernelCall& call) {
  const char* of_tests = std::getenv("WEFT_SDPA");
  std::string name = call.context->numerics().attention;
  if (name.empty() && of_tests) name = of_tests;
  if (name.empty()) return nullptr;
  for (const SdpaKernels& kernels : table)
    if (Name(kernels.backend) == name) return &kernels;
  Fail(fmt::format("attention on CUDA: there is no backend \"{}\"; expected cudnn, flash or plain", name));
}

bool Leads(const SdpaKernels& kernels, const KernelCall& call) { return kernels.leads && kernels.leads(call); }
const SdpaKernels* Leading(SdpaTable table, const KernelCall& call) {
  for (const SdpaKernels& kernels : table)
    if (Leads(kernels, call)) return &kernels;
  return nullptr;
}

bool IsAllowed(const KernelCall& call, const SdpaKernels& kernels) { return Allows(*call.attrs, kernels.backend); }

std::string Refusal(const SdpaKernels& kernels, const KernelCall& call, size_t scratch) {
  if (!IsAllowed(call, kernels)) return "SdpaBackends leaves it out";
  std::string reason = kernels.refuses(call);
  if (reason.empty() && kernels.workspace(call) > scratch) reason = "it needs more workspace than was planned";
  return reason;
}

struct Choice {
  const SdpaKernels* kernels = nullptr;  // null if none takes the call
  std::vector<std::string> reasons;      // why, for example "cudnn: f32 is neither bf16 nor f16"
};

// Asks in the order of preference, and none after the first one that takes the call.
Choice First(SdpaTable table, const KernelCall& call, size_t scratch) {
  Choice choice;
  auto takes = [&](const SdpaKernels& kernels) {
    std::string reason = Refusal(kernels, call, scratch);
    if (reason.empty())
      choice.kernels = &kernels;
    else
      choice.reasons.push_back(fmt::format("{}: {}", Name(kernels.backend), reason));
    return reason.empty();
  };
  const SdpaKernels* preferred = Preferred(table, call);
  if (!preferred) preferred = Leading(table, call);
  if (preferred && takes(*preferred)) return choice;
  for (const SdpaKernels& kernels : table)
    if (&kernels != preferred && takes(kernels)) break;
  return choice;
}

struct Timed {
  const SdpaKernels* kernels;
  double microseconds;
};
// Returns the contenders with their times, or nothing unless times count and the context has all of them.
std::vector<Timed> TimedContenders(SdpaTable table, const KernelCall& call, size_t scratch) {
  std::vector<Timed> all;
  const BackendTimes& known = call.context->backend_times();
  if (known.empty()) return all;
  std::vector<const SdpaKernels*> contenders = SdpaContenders(table, call, scratch);
  if (contenders.empty()) return all;
  std::string key = SdpaKey(call);
  for (const SdpaKernels* kernels : contenders) {
    std::optional<double> time = known.Find(key, Name(kernels->backend));
    if (!time) return {};
    all.push_back({kernels, *time});
  }
  return all;
}

const SdpaKernels* FastestOf(const std::vector<Timed>& all) {
  auto less = [](const Timed& a, const Timed& b) { return a.microseconds < b.microseconds; };
  double least = std::min_element(all.begin(), all.end(), less)->microseconds;
  auto equal = [&](const Timed& timed) { return timed.microseconds <= kEqual * least; };
  return std::find_if(all.begin(), all.end(), equal)->kernels;
}

std::string TimeText(double microseconds) {
  return microseconds < 1000 ? fmt::format("{:.0f} us", microseconds) : fmt::format("{:.2f} ms", microseconds / 1000);
}

// Returns why each backend does not take the call: "cudnn: it does not take masks".
std::vector<std::string> Refusals(SdpaTable table, const KernelCall& call) {
  std::vector<std::string> refusals;
  for (const SdpaKernels& kernels : table)
    if (std::string reason = Refusal(kernels, call, SIZE_MAX); !reason.empty())
      refusals.push_back(fmt::format("{}: {}", Name(kernels.backend), reason));
  return refusals;
}

// Returns the choice by times or else by the order, with its reasons.
Choice Explained(SdpaTable table, const KernelCall& call) {
  std::vector<Timed> all = TimedContenders(table, call, SIZE_MAX);
  if (all.empty()) return First(table, call, SIZE_MAX);
  Choice choice{FastestOf(all), {}};
  for (const Timed& timed : all) {
    std::string time = TimeText(timed.microseconds);
    if (timed.kernels == choice.kernels)
      choice.reasons.insert(choice.reasons.begin(), time);
    else
      choice.reasons.push_back(fmt::format("{}: {}", Name(timed.kernels->backend), time));
  }
  for (std::string& refusal : Refusals(table, call)) choice.reasons.push_back(std::move(refusal));
  return choice;
}

std::string WithReasons(const std::string& choice, const std::vector<std::string>& reasons) {
  return reasons.empty() ? choice : fmt::format("{} ({})", choice, fmt::join(reasons, "; "));
}

// Returns the contenders of a plan without the device, which cannot measure.
std::vector<const SdpaKernels*> OpenChoice(SdpaTable table, const KernelCall& call) {
  if (call.context->Has(DeviceKind::kCuda) || !MayTime()) return {};
  return SdpaContenders(table, call);
}

[[noreturn]] void Refuse(SdpaTable table, const KernelCall& call, size_t scratch) {
  std::vector<std::string> reasons;
  SdpaRefusal refusal;
  for (const SdpaKernels& kernels : table) {
    if (IsAllowed(call, kernels))
      reasons.push_back(fmt::format("{}: {}", Name(kernels.backend), Refusal(kernels, call, scratch)));
    else if (kernels.refuses(call).empty())
      refusal.others |= int64_t(1) << int(kernels.backend);
  }
  refusal.reasons = fmt::format("{}", fmt::join(reasons, "; "));
  RefuseSdpa(call, "a GPU", refusal);
}

// Returns "bf16 [2/8, 1024, 16, 64]": the dims of a chunk, each followed by that of the whole tensor if it is larger.
std::string KeyOf(const TensorView& view) {
  std::vector<std::string> dims;
  for (int i = 0; i < view.rank; i++) {
    const DimView& dim = view.dim(i);
    dims.push_back(dim.capacity == dim.global ? fmt::format("{}", dim.global)
                                              : fmt::format("{}/{}", dim.capacity, dim.global));
  }
  return fmt::format("{} [{}]", Name(view.dtype), fmt::join(dims, ", "));
}

}  // namespace

SdpaTable PlannedSdpa() { return kPlanned; }

std::vector<const SdpaKernels*> SdpaContenders(SdpaTable table, const KernelCall& call, size_t scratch) {
  std::vector<const SdpaKernels*> contenders;
  if (call.context->numerics().deterministic || Preferred(table, call)) return contenders;
  double operations = SdpaOperations(call);
  for (const SdpaKernels& kernels : table)
    if (operations <= kernels.most_operations && Refusal(kernels, call, scratch).empty())
      contenders.push_back(&kernels);
  if (contenders.size() < 2) contenders.clear();
  return contenders;
}

std::string ExplainSdpa(SdpaTable table, const KernelCall& call) {
  if (std::vector<const SdpaKernels*> open = OpenChoice(table, call); !open.empty()) {
    std::vector<const char*> names;
    for (const SdpaKernels* kernels : open) names.push_back(Name(kernels->backend));
    return WithReasons(fmt::format("{}, whichever takes less time on the GPU", fmt::join(names, " or ")),
                       Refusals(table, call));
  }
  Choice choice = Explained(table, call);
  if (!choice.kernels) return WithReasons("no backend", choice.reasons);
  std::string name = Name(choice.kernels->backend);
  return WithReasons(Leads(*choice.kernels, call) ? name + " in one pass" : name, choice.reasons);
}

const SdpaKernels& ChooseSdpa(SdpaTable table, const KernelCall& call, size_t scratch) {
  if (std::vector<Timed> all = TimedContenders(table, call, scratch); !all.empty()) return *FastestOf(all);
  Choice choice = First(table, call, scratch);
  if (choice.kernels) return *choice.kernels;
  Refuse(table, call, scratch);
}

// A run is the first to see whether data is aligned, so it may have to fall back to a backend that needs only the rows.
size_t SdpaWorkspace(SdpaTable table, const KernelCall& call) {
  size_t bytes = SdpaRowsWorkspace(call);
  std::vector<const SdpaKernels*> open = OpenChoice(table, call);
  for (const SdpaKernels* kernels : open) bytes = std::max(bytes, kernels->workspace(call));
  return open.empty() ? std::max(bytes, ChooseSdpa(table, call, SIZE_MAX).workspace(call)) : bytes;
}

// The scale, the numbers of dropout and the allowed backends change no backend's time.
std::string SdpaKey(const KernelCall& call) {
  static constexpr std::string_view kWithoutTime[] = {"scale", "key", "start", "size", "backends"};
  Attrs attrs;
  for (const Attrs::Item& item : call.attrs->items())
    if (std::ranges::find(kWithoutTime, item.name) == std::end(kWithoutTime)) attrs.Set(item);
  std::string key = IsSdpaGrad(call) ? "sdpa_grad" : "sdpa";
  for (const TensorView& view : call.in) key += " " + KeyOf(view);
  if (call.in[0].dtype == DType::kF32 && call.context->numerics().tf32) key += " tf32";
  return key + " " + ToString(attrs);
}

double SdpaOperations(const KernelCall& call) {
  auto size = [&](size_t operand, int dim) { return double(call.in[operand].dim(dim).capacity); };
  double pairs = size(0, 0) * size(0, 1) * size(0, 2) * size(1, 1), D = size(0, 3), E = size(2, 3);
  return 2 * pairs * (IsSdpaGrad(call) ? 3 * D + 2 * E : D + E);
}

size_t SdpaRowsWorkspace(const KernelCall& call) { return IsSdpaGrad(call) ? SdpaRowsBytes(call) : 0; }
size_t QuerySumBytes(const KernelCall& call) {
  if (!FlashSumsQueries(call)) return 0;
  SdpaSizes z(call);
  return size_t(z.B) * size_t(z.H) * size_t(z.PaddedT()) * size_t(z.D) * sizeof(float);
}
size_t FlashTilesWorkspace(const KernelCall& call) {
  size_t of_tiles = SdpaRowsWorkspace(call) + QuerySumBytes(call) + SegmentRangeBytes(call);
  return std::max(of_tiles, SdpaSplit(call).bytes);
}
size_t FlashWorkspace(const KernelCall& call) {
  return std::max(FlashTilesWorkspace(call), IsSdpaGrad(call) ? SdpaOnePass(call).bytes : 0);
}

std::string FlashRefusesShape(const KernelCall& call) {
  DType dtype = call.in[0].dtype;
  int64_t size = call.in[0].dim(3).extent, values = call.in[2].dim(3).extent;
  if (values != size) return fmt::format("values of size {} differ from keys of size {}", values, size);
  if (!IsHalf(dtype) && dtype != DType::kF32) return fmt::format("{} is none of bf16, f16 and f32", Name(dtype));
  if (IsHalf(dtype) && size % 8) return fmt::format("head size {} is not a multiple of 8", size);
  if (size > 256) return fmt::format("head size {} is above 256", size);
  if (double scale = SdpaSizes(call).scale; scale < 0) return fmt::format("scale {} is negative", scale);
  if (IsHalf(dtype) && !HasAlignedRows(call)) return "an operand's rows are not aligned to 16 bytes";
  return {};
}

std::string PlainRefuses(const KernelCall& call) {
  constexpr int64_t kLargest = 1024;  // four rows of f64 fit the shared memory of every block
  DType dtype = call.in[0].dtype;
  int64_t size = std::max(call.in[0].dim(3).extent, call.in[2].dim(3).extent);  // of keys or values
  if (!IsFloating(dtype)) return fmt::format("{} is no floating type; cast q, k and v", Name(dtype));
  if (size > kLargest) return fmt::format("head size {} is above {}; use more and smaller heads", size, kLargest);
  return {};
}

}  // namespace weft::cuda
