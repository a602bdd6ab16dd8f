// Safetensors: the tensors of .safetensors files. The data stays in the files.
//
//   absl::StatusOr<Safetensors> weights = Safetensors::Open("gpt2/model.safetensors");
//   const StoredTensor& wte = weights->tensors().at("wte.weight");
//
// A file is a u64 N, N bytes of JSON {name: {dtype, shape, data_offsets}}, and the data, row-major. All is
// little-endian.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/core/base/dtype.h"
#include "weft/core/base/shape.h"
#include "weft/train/io/mapped_file.h"

namespace weft {

struct StoredTensor {
  std::string_view file;       // as shown in errors; valid as long as the Safetensors
  std::string_view type;       // as in the file: "BF16"; static storage
  std::optional<DType> dtype;  // none if Weft lacks the type
  Shape shape;
  std::span<const std::byte> data;  // may be unaligned
};

class Safetensors {
 public:
  // Opens a file, or a folder with model.safetensors, or a folder with model.safetensors.index.json and the files that
  // it names. Errors name the file, the tensor, what was expected, what was found and how to fix it.
  static absl::StatusOr<Safetensors> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  // Returns a hash of names, types, shapes and samples of the data. It tells two sets of weights apart without reading
  // all of either.
  uint64_t Hash() const;
  // Returns MappedFile::Fault of all files.
  absl::Status Fault() const;

 private:
  absl::Status AddFile(const std::string& path);
  absl::Status AddIndex(const std::string& index);

  std::string path_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace weft
