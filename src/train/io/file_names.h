// File names shared by several parts of the library.
#pragma once

namespace weft {

inline constexpr const char *kManifestFile = "manifest.json", *kConfigFile = "config.yaml";  // in a checkpoint

}  // namespace weft
