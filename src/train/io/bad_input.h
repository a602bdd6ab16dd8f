// BadInput: the error of a file, or of a place in one, that cannot be used.
#pragma once
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace weft {

// Returns "PLACE: WHAT", for example of the place "data.jsonl:12".
inline absl::Status BadInput(absl::string_view place, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", what));
}

}  // namespace weft
