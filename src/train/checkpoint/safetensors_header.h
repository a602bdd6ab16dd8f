// The header of a safetensors file: JSON {name: {dtype, shape, data_offsets}, __metadata__: {name: text}}.
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
  std::string_view type;       // as the file names it, "BF16"; of static storage
  std::optional<DType> dtype;  // of the floating types that Weft has
  Shape shape;
  uint64_t begin = 0, end = 0;  // of its bytes in the data behind the header
};

// The tensors of a header, whose data fill `data_bytes` without holes or overlaps. A header is at most 100 MB; reading
// it takes at most 10 times its size. Errors name the path, the tensor, what was expected, what was found and what to
// do.
absl::StatusOr<std::map<std::string, ListedTensor>> ReadSafetensorsHeader(const std::string& path,
                                                                          std::span<const std::byte> header,
                                                                          uint64_t data_bytes);

}  // namespace weft
