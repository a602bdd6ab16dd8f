// The YAML layer: reading gives a config, or an error that names a place in it.
#include <algorithm>

#include "fuzz/allocation_bound.h"
#include "fuzz/target.h"
#include "weft/train/config/config.h"
#include "weft/train/io/yaml_node.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  static const Config warm = ParseConfig("device: cpu\n", "a", {}).value_or(Config());  // fills the schema's table
  std::string_view text = fuzz::Text(data, size);
  absl::StatusOr<YamlNode> tree;
  {
    // The library's buffer of 2 KiB, and a growing vector of the open nodes. For an open bracket the library keeps a
    // token and a possible key, of about 250 bytes.
    fuzz::AllocationBound bound(size, {.largest = 6 << 10, .live = 16 << 10, .live_times = 300});
    tree = ParseYaml(text, "a.yaml");
  }
  // An error lists 20 faults, and each may name all keys.
  fuzz::AllocationBound bound(size, {.largest = 64 << 10, .live = 64 << 10, .live_times = 300});
  // The argument stops parsing once all keys are read. Further checks would take memory for a model of those sizes, not
  // for the file.
  absl::Status status = ParseConfig(text, "a.yaml", {"no"}).status();
  fuzz::Check(!status.ok(), "an argument that is no override is refused");
  fuzz::Check(tree.ok() || std::string(status.message()).starts_with("a.yaml:"), "an answer names the file");
  return 0;
}
