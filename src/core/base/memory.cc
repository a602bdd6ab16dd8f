#include "weft/core/base/memory.h"

#include <fmt/format.h>

#include <utility>

namespace weft {
namespace {
thread_local const char* current = "values of an op";
}  // namespace

MemoryUse::MemoryUse(const char* category) : previous_(std::exchange(current, category)) {}
MemoryUse::~MemoryUse() { current = previous_; }
const char* MemoryUse::Current() { return current; }

std::string OutOfMemory(const Shortage& s) {
  std::string has = "free bytes unknown";
  if (s.memory.total) has = fmt::format("{} free of {}", BytesText(s.memory.free), BytesText(s.memory.total));
  return fmt::format(
      "out of memory on {}: {} asked for ({}), {}; a smaller train.micro_batch needs less for activations, "
      "parallel.fsdp=gradients or full over more mesh.dp ranks less for the rest, and weft plan tells how much",
      s.where, s.asked ? BytesText(s.asked) : "an unknown amount", s.what, has);
}

std::string BytesText(size_t bytes) {
  constexpr size_t kUnit = 1024;
  if (bytes < kUnit) return fmt::format("{} B", bytes);
  auto value = double(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < kUnit) break;
    value /= kUnit;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

}  // namespace weft
