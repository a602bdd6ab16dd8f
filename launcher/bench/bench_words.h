// BenchWords: the command line of weft bench. One table lists the keys of each kind of measurement. Help, completions
// and errors are made from it.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/command.h"
#include "weft/core/base/dtype.h"
#include "weft/train/config/config.h"

namespace weft {

// Texts are lists as given on the command line. "" means the default of the kind and the device.
struct BenchWords {
  std::string kind;  // of BenchKindNames()
  bool json = false;
  double seconds = 0.2;
  int64_t repeats = 0;  // 0: as many as fit into `seconds`
  std::string dtype, op, executor;
  std::string bytes = "1M..64M", axis = "world", memory = "ordinary";
  int64_t factor = 4;
  std::string m, n, k;
  std::string batch, heads, kv_heads, seq, head_dim, layers, dim, ffn, pass;
  bool causal = true;
  int64_t window = 0, documents = 1;           // 0: no window
  double padding = 0, share_of_padding = 0.5;  // of sdpa, and of encoder
  std::string elements = "16";
  std::string copy_bytes;  // of copy
  double settle = -1;      // of rates; below 0: the default of the device
  std::string meshes = "config";
  std::string config_path;
  Config config;    // the keys of BenchConfigKeys; not used by kinds step and rates
  Words overrides;  // of the config at config_path; only for kinds step and rates
};

std::vector<std::string> BenchKindNames();

// Return the keys of a kind, and the keys that every kind has. Keys of the config are not included.
std::vector<Option> BenchOptions(const std::string& kind, BenchWords& words);
std::vector<Option> BenchCommonOptions(BenchWords& words);
// Returns the keys and sections of the config that the kind takes. Empty means all.
std::vector<std::string> BenchConfigKeys(const std::string& kind);

// Parses the arguments without ranks=N. Errors name the wrong argument and the key or kind with the nearest spelling.
absl::StatusOr<BenchWords> ParseBenchWords(const Words& words);

// Returns the types in `words.dtype`, or in `otherwise` if that is empty. With `floating`, as for products and
// attention, integer types are errors.
absl::StatusOr<std::vector<DType>> BenchDTypes(const BenchWords& words, const std::string& otherwise, bool floating);

// Returns the executors in `words.executor`, or all executors if it is empty.
absl::StatusOr<std::vector<std::string>> BenchExecutors(const BenchWords& words);

}  // namespace weft
