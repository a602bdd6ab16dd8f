// The config that a checkpoint keeps, which may be from before some keys of its family.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "weft/train/config/config.h"

namespace weft {

// Parses config.yaml of a checkpoint as ParseConfig does. A key of the family that it lacks gets the value that the
// model had before there was such a key (FamilyKey::earlier), and a note says so.
absl::StatusOr<Config> ParseSavedConfig(std::string_view yaml, const std::string& name,
                                        const std::vector<std::string>& overrides);

}  // namespace weft
