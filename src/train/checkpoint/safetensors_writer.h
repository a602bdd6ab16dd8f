// Builds the header of a safetensors file.
//
//   std::vector<SafetensorsEntry> tensors = {{"wte.weight", DType::kF32, {50257, 768}}};
//   std::string header = SafetensorsHeader(tensors, "pt");
//   // the file is the header and then the tensors' bytes, in this order
#pragma once
#include <span>
#include <string>

#include "weft/core/base/dtype.h"
#include "weft/core/base/shape.h"

namespace weft {

struct SafetensorsEntry {
  std::string name;
  DType dtype;
  Shape shape;
  uint64_t bytes() const { return uint64_t(NumElements(shape)) * SizeOf(dtype); }
};

// Returns the length of the JSON, the JSON, and spaces, so that the data begins at a multiple of 64 bytes. `format` is
// stored in the metadata; transformers requires "pt".
std::string SafetensorsHeader(std::span<const SafetensorsEntry> tensors, const char* format);

}  // namespace weft
