// Manifest: what a checkpoint holds, and where: every tensor as boxes of bytes in files, each with its checksum.
//
// manifest.json is one JSON object. Its last line is the checksum of all before it, so that no byte of a checkpoint
// goes unwatched: a file is its header and then boxes, without a gap.
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
  size_t file = 0;  // index
  Box box;
  uint64_t offset = 0;  // of its bytes in the file, row-major
  uint32_t crc = 0;
};
struct SavedTensor {
  DType dtype = DType::kF32;
  Shape shape;           // global
  std::string sharding;  // on the mesh that saved it: for people
  std::vector<SavedBox> boxes;
};

struct Manifest {
  std::string version;  // of Weft
  int64_t step = 0, seed = 0;
  int64_t sequences = 0;                          // position in the data: of all steps so far
  std::vector<int64_t> of_source;                 // of these, those of each source of a mixture
  bool eval_due = false;                          // an evaluation follows the step (see IsEvaluated)
  std::vector<std::pair<std::string, int>> mesh;  // axes and sizes
  std::vector<SavedFile> files;
  std::map<std::string, SavedTensor> tensors;
};

std::string ToText(const Manifest& manifest);
// The text of a manifest, all but its last line, with that line: the checksum.
std::string Sealed(std::string body);
// Refuses what does not hold together: boxes that leave or overlap or do not fill their tensor or are no cells of a
// grid, bytes that leave or do not fill their file, names that are paths. Takes n log n in all that is listed. Errors
// name the file `path` and the tensor.
absl::StatusOr<Manifest> ParseManifest(std::span<const std::byte> text, const std::string& path);

}  // namespace weft
