#include "weft/kernels/cuda/measure/sdpa_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "weft/core/host/notice.h"
#include "weft/core/runtime/backend_times.h"

namespace weft::cuda {
namespace {

std::string EntryOf(const std::string& key, const SdpaKernels& kernels) {
  return fmt::format("{} by {}", key, Name(kernels.backend));
}

}  // namespace

void SdpaMeasure::operator()(const KernelCall& call) {
  if (!MayTime()) return;
  Contenders contenders = SdpaContenders(table_, call);
  if (contenders.empty()) return;
  std::string key = SdpaKey(call);
  BackendTimes& times = call.context->backend_times();
  auto has_time = [&](const SdpaKernels* kernels) { return times.Find(key, Name(kernels->backend)).has_value(); };
  if (std::all_of(contenders.begin(), contenders.end(), has_time)) return;
  if (!Recall(contenders, key, times)) Time(contenders, key, call);
}

// Takes the times in the file if it has those of all contenders. Returns whether it has.
bool SdpaMeasure::Recall(const Contenders& contenders, const std::string& key, BackendTimes& times) {
  CacheFile::Contents kept = file_.Read();
  if (!kept.fault.empty())
    Note(fmt::format("times of attention in {} are measured again: {}", file_.path(), kept.fault));
  std::vector<double> found;
  for (const SdpaKernels* kernels : contenders) {
    auto at = kept.entries.find(EntryOf(key, *kernels));
    std::optional<double> time;
    if (at != kept.entries.end()) time = MicrosecondsOf(at->second);
    if (!time) return false;
    found.push_back(*time);
  }
  for (size_t i = 0; i < contenders.size(); i++) times.Set(key, Name(contenders[i]->backend), found[i]);
  return true;
}

void SdpaMeasure::Time(const Contenders& contenders, const std::string& key, const KernelCall& call) {
  std::vector<double> measured = timer_(contenders, call);
  if (measured.empty())
    return Note(fmt::format("attention is not timed, because the GPU lacks the memory for the operands of {}", key));
  CacheFile::Entries entries;
  for (size_t i = 0; i < contenders.size(); i++) {
    call.context->backend_times().Set(key, Name(contenders[i]->backend), measured[i]);
    entries[EntryOf(key, *contenders[i])] = fmt::format("{}", measured[i]);
  }
  CacheFile::Lock lock(file_);
  if (!file_.Add(entries) && !file_.path().empty())
    Note(
        fmt::format("times of attention cannot be kept in {}, so each run measures them; XDG_CACHE_HOME names another "
                    "folder",
                    file_.path()));
}

void SdpaMeasure::Note(const std::string& text) {
  if (!std::exchange(noted_, true)) PrintNote("{}", text);
}

}  // namespace weft::cuda
