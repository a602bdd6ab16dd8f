#include "launcher/device_note.h"

#include <fmt/format.h>

#include "weft/train/config/config_check.h"

namespace weft {

std::string NoGpuReason(int64_t ranks) {
  if (ranks == 1) return "";
  return fmt::format("cuda on {} ranks is not built yet, as nothing moves tensors between GPUs", ranks);
}

std::vector<std::string> DeviceNotes(const Config& config, bool has_driver) {
  std::string reason = NoGpuReason(config.mesh.ranks());
  if (reason.empty()) return {};
  std::string place = config.Given("device") ? PlaceOf(config, "device") : "device: ";
  if (config.device == DeviceChoice::kCuda) return {place + "weft train refuses what is planned here: " + reason};
  if (config.device == DeviceChoice::kAuto && has_driver)
    return {place + "auto is the CPU here, although this host has a GPU: " + reason};
  return {};
}

}  // namespace weft
