// Names of files that several rooms know.
#pragma once

namespace weft {

inline constexpr const char *kManifestFile = "manifest.json", *kConfigFile = "config.yaml";  // of a checkpoint

}  // namespace weft
