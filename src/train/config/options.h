// Options: command-line arguments that are not config keys. They use the rules of the config: a Field gives the allowed
// values, and names, help and errors look the same.
//
//   int64_t tokens = 200;
//   std::vector<Option> options = {{{.key = "tokens", .help = "how many to write", .bounds = {.low = 1}}, &tokens}};
//   absl::StatusOr<std::set<std::string>> given = TakeOptions(options, words);
//
// Accepts "tokens=50", "--tokens=50", or "--tokens" followed by "50".
#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/config/config_schema.h"

namespace weft {

struct Option {
  Field field;   // key, help and allowed values; field.ref is not used
  FieldRef ref;  // receives the value; initially the default
  enum Form : uint8_t {
    kAny,       // key=value, --key=value or --key value; for a bool also --key
    kFlag,      // only with --, because the config has a key or section of this name
    kVerbatim,  // the text is taken as is, even if it is empty; a list gets one more text each time
  } form = kAny;
};

// Whether an argument is key=value. No key has a slash, so ./lr=1e-3 and runs/lr=1e-3 are paths.
bool SetsKey(const std::string& word);

// Sets options from the arguments in `words` and removes those arguments. If an option is repeated, its last value
// counts, except for lists of kVerbatim. Returns the keys that were given. Errors name the key, the expected value and
// the given one. A misspelled option is an error that names the option.
absl::StatusOr<std::set<std::string>> TakeOptions(std::span<const Option> options, std::vector<std::string>& words);

}  // namespace weft
