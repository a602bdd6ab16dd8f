// Options: the words of a command that are no keys of the config, read by the same rules: a Field says what a value may
// be, and its name, help and faults look like a key's.
//
//   int64_t tokens = 200;
//   std::vector<Option> options = {{{.key = "tokens", .help = "how many to write", .bounds = {.low = 1}}, &tokens}};
//   absl::Status status = TakeOptions(options, words);    // "tokens=50", "--tokens=50" or "--tokens" and "50"
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
  Field field;   // key, help and what a value may be; ref is not used
  FieldRef ref;  // gets the value, and has the default
  enum Form : uint8_t {
    kAny,       // key=value, --key=value and --key value; of a bool also --key
    kFlag,      // only with --, because the config has a key or a section of this name
    kVerbatim,  // a text that is taken as it is, even when it is empty
  } form = kAny;
};

// Sets options from the words that name them and removes these words; the last value of an option counts. Returns the
// keys that were given. Errors name the key, what was expected and what came.
absl::StatusOr<std::set<std::string>> TakeOptions(std::span<const Option> options, std::vector<std::string>& words);

}  // namespace weft
