#include "parallel/checkpoint/shard_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fmt/format.h"

namespace weft {
namespace {

// As safetensors names them.
std::string TypeName(DType dtype) {
  std::string name = Name(dtype);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return char(std::toupper(uint8_t(c))); });
  return name;
}

// The length, the JSON, and spaces, so that the data begin at a multiple of `kAlign`.
std::string HeaderOf(const std::vector<PlannedBox>& boxes) {
  constexpr size_t kAlign = 64;
  nlohmann::json json = {{"__metadata__", {{"format", "weft"}}}};
  uint64_t at = 0;
  for (const PlannedBox& b : boxes) {
    Shape shape = Extents(b.box);
    json[b.tensor] = {{"dtype", TypeName(b.dtype)},
                      {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                      {"data_offsets", {at, at + b.bytes()}}};
    at += b.bytes();
  }
  std::string text = json.dump();
  uint64_t size = (text.size() + sizeof size + kAlign - 1) / kAlign * kAlign - sizeof size;
  text.resize(size, ' ');
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

}  // namespace

ShardPlan PlanShard(const State& state, int rank) {
  ShardPlan plan{.file = fmt::format("rank-{:05}.safetensors", rank)};
  Coords coords = state.mesh().CoordsOf(rank);
  for (const auto& [name, e] : state.entries()) {
    if (!e.saved) continue;
    if (std::optional<Box> box = OwnedBox(e.global, e.sharding, state.mesh(), coords))
      plan.boxes.push_back({name, e.local.dtype(), *box});
  }
  plan.header = HeaderOf(plan.boxes);
  plan.bytes = plan.header.size();
  for (PlannedBox& b : plan.boxes) {
    b.offset = plan.bytes;
    plan.bytes += b.bytes();
  }
  return plan;
}

Manifest ManifestOf(const State& state, const std::vector<std::vector<uint32_t>>& crcs) {
  Manifest m{.version = WEFT_VERSION};
  const MeshShape& mesh = state.mesh();
  for (int a = 0; a < mesh.num_axes(); a++) m.mesh.emplace_back(mesh.names[size_t(a)], mesh.sizes[size_t(a)]);
  for (const auto& [name, e] : state.entries())
    if (e.saved)
      m.tensors[name] = {.dtype = e.local.dtype(), .shape = e.global, .sharding = ToString(e.sharding), .boxes = {}};
  for (int rank = 0; rank < mesh.num_ranks(); rank++) {
    ShardPlan plan = PlanShard(state, rank);
    const std::vector<uint32_t>& of_rank = crcs[size_t(rank)];
    if (plan.boxes.empty()) continue;
    WEFT_CHECK(of_rank.size() == plan.NumCrcs(), fmt::format("checkpoint: expected {} checksums of rank {}, got {}",
                                                             plan.NumCrcs(), rank, of_rank.size()));
    m.files.push_back({plan.file, plan.bytes, plan.header.size(), of_rank[0]});
    for (size_t i = 0; i < plan.boxes.size(); i++) {
      const PlannedBox& b = plan.boxes[i];
      m.tensors[b.tensor].boxes.push_back({m.files.size() - 1, b.box, b.offset, of_rank[i + 1]});
    }
  }
  return m;
}

}  // namespace weft
