// Manifest: the contents of a checkpoint: every tensor as boxes of bytes in files, each box with its checksum.
//
// manifest.json is one JSON object. Its last line is the checksum of all text before it. The files consist of headers
// and boxes without gaps, so checksums cover every byte of a checkpoint.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/core/base/box.h"
#include "weft/train/io/file_names.h"

namespace weft {

struct SavedFile {
  std::string name;  // in the folder of the checkpoint
  uint64_t bytes = 0, header_bytes = 0;
  uint32_t header_crc = 0;
};
struct SavedBox {
  size_t file = 0;  // index into Manifest::files
  Box box;
  uint64_t offset = 0;  // of its bytes in the file; row-major
  uint32_t crc = 0;
};
struct SavedTensor {
  DType dtype = DType::kF32;
  Shape shape;           // global
  std::string sharding;  // on the mesh that saved it; only for display
  std::vector<SavedBox> boxes;
};

struct Manifest {
  std::string version;  // of Weft
  int64_t step = 0, seed = 0;
  int64_t sequences = 0;                          // position in the data: sequences of all steps so far
  std::vector<int64_t> of_source;                 // how many of them came from each source of a mixture
  bool eval_due = false;                          // an evaluation follows the step (see IsEvaluated)
  std::vector<std::pair<std::string, int>> mesh;  // axes and sizes
  std::vector<SavedFile> files;
  std::map<std::string, SavedTensor> tensors;
};

std::string ToText(const Manifest& manifest);
// Appends the line with the checksum to the text of a manifest.
std::string Sealed(std::string body);
// Parses and validates a manifest. Returns an error for
// - boxes that overlap, leave or do not fill their tensor, or are not cells of a grid,
// - boxes that leave or do not fill their file,
// - file names that are paths.
//
// Takes O(n log n) time for n listed items. Errors name the manifest, `path`, and the tensor.
absl::StatusOr<Manifest> ParseManifest(std::span<const std::byte> text, const std::string& path);

}  // namespace weft
