#include "weft/kernels/cuda/device/support.h"

#include <fmt/format.h>

#include <charconv>

namespace weft::cuda {
namespace {

constexpr int kOldest = 80;  // compute capability; older GPUs lack bf16 products and asynchronous copies

std::string VersionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }
std::string CapabilityText(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

// Returns whether code for one architecture runs on a GPU:
// - machine code: on its own generation, from its minor version on;
// - PTX: on everything that is not older;
// - code with the features of one architecture (90a): only there;
// - code with the features of one family (100f): within its generation.
bool Runs(std::string_view built, int capability) {
  int number = 0;
  auto [rest, error] = std::from_chars(built.data(), built.data() + built.size(), number);
  std::string_view suffix(rest, size_t(built.data() + built.size() - rest));
  if (suffix.starts_with('a')) return capability == number;
  bool within = capability / 10 == number / 10 && capability >= number;
  if (suffix.starts_with('f') || suffix.ends_with("-real")) return within;
  return suffix.ends_with("-virtual") || suffix.empty() ? capability >= number : within;
}

bool RunsAny(std::string_view built, int capability) {
  while (!built.empty()) {
    size_t end = std::min(built.find_first_of(",;"), built.size());
    if (Runs(built.substr(0, end), capability)) return true;
    built.remove_prefix(std::min(end + 1, built.size()));
  }
  return false;
}

}  // namespace

std::string DriverFault(const DriverFacts& facts, int index) {
  if (facts.driver == 0)
    return fmt::format(
        "device cuda: this host has no NVIDIA driver, or this container does not see it; install one for CUDA {} or "
        "newer, start the container with its GPUs, or use device=cpu",
        VersionText(facts.runtime));
  if (!facts.runs)
    return fmt::format(
        "device cuda: the NVIDIA driver runs CUDA up to {}, this build needs {}; install a newer driver, build with an "
        "older toolkit, or use device=cpu",
        VersionText(facts.driver), VersionText(facts.runtime));
  if (!facts.error.empty())
    return fmt::format(
        "device cuda: CUDA cannot use this host's GPUs: {}; nvidia-smi may tell more (a container needs the driver's "
        "own libraries, an NVSwitch machine its fabric manager), or use device=cpu",
        facts.error);
  if (facts.gpus == 0)
    return "device cuda: there is an NVIDIA driver but no GPU that CUDA can use (is CUDA_VISIBLE_DEVICES empty?); use "
           "device=cpu";
  if (index < facts.gpus) return {};
  return fmt::format("device cuda:{}: this host has {} GPU{}; start at most that many ranks on it", index, facts.gpus,
                     facts.gpus == 1 ? "" : "s");
}

std::string GpuFault(int index, const std::string& name, int capability, std::string_view built) {
  std::string start =
      fmt::format("device cuda:{}: {} has compute capability {}", index, name, CapabilityText(capability));
  if (capability < kOldest)
    return fmt::format("{}, expected {} or newer; use device=cpu", start, CapabilityText(kOldest));
  if (RunsAny(built, capability)) return {};
  return fmt::format(
      "{}, and the kernels of this build are only for {}; configure with -DWEFT_CUDA_ARCH={}-real and build, or use "
      "device=cpu",
      start, built, capability);
}

}  // namespace weft::cuda
