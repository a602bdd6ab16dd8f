#include "weft/train/preflight/memory_check.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "weft/core/base/process_memory.h"

namespace weft {
namespace {

// Returns "4 ranks: parameters 1.0 GiB, moments 2.0 GiB": the need at one place.
std::string AskedText(const MemoryNeed& need, int64_t ranks) {
  std::string text = ranks == 1 ? "" : fmt::format("{} ranks: ", ranks), comma;
  for (const auto& [name, bytes] : need.Categories()) {
    if (bytes == 0) continue;
    text += fmt::format("{}{} {}", comma, name, BytesText(size_t(bytes)));
    comma = ", ";
  }
  return text;
}

absl::Status CheckPlace(const std::string& place, std::span<const RankMemory> ranks) {
  MemoryNeed need;
  Memory memory;
  int64_t count = 0;
  for (const RankMemory& rank : ranks) {
    if (rank.place != place) continue;
    if (count++ == 0 || rank.memory.free < memory.free) memory = rank.memory;
    need += rank.need;
  }
  auto held = size_t(need.data);
  if (memory.total == 0 || size_t(need.Total()) - held <= memory.free) return absl::OkStatus();
  memory.free += held;
  return absl::ResourceExhaustedError(
      "weft: " +
      OutOfMemory({.where = place, .asked = size_t(need.Total()), .what = AskedText(need, count), .memory = memory}));
}

// A place of a rank, in the form that is sent. An empty name means that there is no such place.
struct Packed {
  char place[256] = {};
  MemoryNeed need;
  Memory memory;
};
static_assert(std::is_trivially_copyable_v<Packed> && sizeof(Packed) % sizeof(int64_t) == 0);

Packed Pack(const std::string& place, const MemoryNeed& need, const Memory& memory) {
  Packed packed{.need = need, .memory = memory};
  place.copy(packed.place, sizeof(packed.place) - 1);
  return packed;
}

}  // namespace

absl::Status CheckMemory(std::span<const RankMemory> ranks) {
  for (const RankMemory& rank : ranks)
    if (absl::Status s = CheckPlace(rank.place, ranks); !s.ok()) return s;
  return absl::OkStatus();
}

std::string KeysForLess(const MemoryNeed& need, const ModelScope::Options& model, bool combines) {
  std::string keys;
  bool keeps = model.fsdp == Fsdp::kFull && !model.regather;  // else a step holds as many bytes of casts as of copies
  if (keeps) keys += "; parallel.regather=always keeps no gathered weights";
  if (keeps && need.copies > 0) keys += "; precision.copies=never keeps no weights in the compute type";
  // Casts are written where they are joined; other weights are copied there.
  bool copies = need.copies > 0 || model.precision.compute == model.precision.params;
  if (combines && copies && model.fsdp != Fsdp::kFull) keys += "; kernels.combine=false joins no weights";
  return keys;
}

size_t DeviceBytes(const Config& config) { return size_t(config.device_memory * double(size_t(1) << 30)); }

Memory Bounded(const Memory& memory, size_t most) {
  if (most == 0 || memory.total <= most) return memory;
  size_t held = memory.total - memory.free;
  return {.free = most > held ? most - held : 0, .total = most};
}

absl::Status CheckMemory(const MemoryNeed& need, const Config& config, const DeviceRuntime& device,
                         ProcessGroup& world) {
  ProcessMemory process;
  bool on_cpu = device.device().kind == DeviceKind::kCpu;
  if (on_cpu) process = MemoryOfProcess();
  Memory memory = Bounded(device.MemoryNow(), on_cpu ? 0 : DeviceBytes(config));
  const std::array<Packed, 2> mine{Pack(PlaceOf(device), need, memory), Pack(PlaceOf(process), need, process.memory)};
  std::vector<Packed> all(mine.size() * size_t(world.size()));
  world.AllGather(mine.data(), all.data(), sizeof(mine) / sizeof(int64_t), DType::kI64);
  std::vector<RankMemory> ranks;
  for (const Packed& p : all)
    if (p.place[0]) ranks.push_back({p.place, p.need, p.memory});
  return CheckMemory(ranks);
}

}  // namespace weft
