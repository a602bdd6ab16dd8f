#include "weft/train/checkpoint/shard_plan.h"

#include "fmt/format.h"
#include "weft/train/checkpoint/safetensors_writer.h"

namespace weft {
namespace {

std::string HeaderOf(const std::vector<PlannedBox>& boxes) {
  std::vector<SafetensorsEntry> entries;
  for (const PlannedBox& b : boxes) entries.push_back({b.tensor, b.dtype, Extents(b.box)});
  return SafetensorsHeader(entries, "weft");
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
