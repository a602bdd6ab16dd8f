// ConfigError: a fault of the config that shows only when its step is planned. Thrown on all ranks alike, it ends a
// command with exit code 2, as other faults of a config do.
#pragma once
#include "weft/core/base/error.h"

namespace weft {

class ConfigError : public Error {
 public:
  using Error::Error;
};

}  // namespace weft
