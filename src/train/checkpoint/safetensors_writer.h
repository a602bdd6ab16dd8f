// The header of a safetensors file that is to be written.
//
//   std::string header = SafetensorsHeader({{"wte.weight", DType::kF32, {50257, 768}}}, "pt");
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

// Its length, the JSON, and spaces, so that the data begin at a multiple of 64. `format` goes to the metadata: "pt" is
// what transformers asks for.
std::string SafetensorsHeader(std::span<const SafetensorsEntry> tensors, const char* format);

}  // namespace weft
