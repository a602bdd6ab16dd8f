#include "weft/train/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "weft/core/host/rounding.h"

namespace weft {
namespace {

// Returns the name of a type in safetensors.
std::string TypeName(DType dtype) {
  std::string name = Name(dtype);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return char(std::toupper(uint8_t(c))); });
  return name;
}

}  // namespace

std::string SafetensorsHeader(std::span<const SafetensorsEntry> tensors, const char* format) {
  constexpr size_t kAlign = 64;
  nlohmann::json json = {{"__metadata__", {{"format", format}}}};
  uint64_t at = 0;
  for (const SafetensorsEntry& t : tensors) {
    json[t.name] = {{"dtype", TypeName(t.dtype)},
                    {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())},
                    {"data_offsets", {at, at + t.bytes()}}};
    at += t.bytes();
  }
  std::string text = json.dump();
  uint64_t size = RoundUpBytes(text.size() + sizeof size, kAlign) - sizeof size;
  text.resize(size, ' ');
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

}  // namespace weft
