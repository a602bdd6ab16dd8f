// Reads the header of a safetensors file: JSON {name: {dtype, shape, data_offsets}, __metadata__: {name: text}}.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "weft/core/base/dtype.h"
#include "weft/core/base/shape.h"

namespace weft {

struct ListedTensor {
  std::string_view type;       // as in the file: "BF16"; static storage
  std::optional<DType> dtype;  // none if Weft lacks the type
  Shape shape;
  uint64_t begin = 0, end = 0;  // of its bytes in the data after the header
};

// Returns the tensors of a header. Their data must fill `data_bytes` without holes or overlaps. A header has at most
// 100 MB, and reading it takes at most 10 times as much memory. Errors name the path, the tensor, what was expected,
// what was found and how to fix it.
absl::StatusOr<std::map<std::string, ListedTensor>> ReadSafetensorsHeader(const std::string& path,
                                                                          std::span<const std::byte> header,
                                                                          uint64_t data_bytes);

}  // namespace weft
