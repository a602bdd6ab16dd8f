#include "weft/dist/group/consensus.h"

#include "fmt/format.h"

namespace weft {

std::vector<std::string> GatherBytes(ProcessGroup& group, std::string_view mine) {
  auto n = size_t(group.size());
  std::vector<int64_t> sizes(n);
  auto size = int64_t(mine.size());
  group.AllGather(&size, sizes.data(), 1, DType::kI64);
  std::string all(size_t(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})), '\0');
  if (!all.empty()) group.AllGatherV(mine.data(), all.data(), sizes, DType::kU8);
  std::vector<std::string> pieces(n);
  size_t at = 0;
  for (size_t r = 0; r < n; r++) {
    pieces[r] = all.substr(at, size_t(sizes[r]));
    at += size_t(sizes[r]);
  }
  return pieces;
}

absl::Status FirstFault(ProcessGroup& group, const absl::Status& mine) { return FirstFault(RanksOf(group), mine); }

void CheckSame(ProcessGroup& group, uint64_t mine, const char* otherwise) {
  std::vector<uint64_t> all(size_t(group.size()));
  group.AllGather(&mine, all.data(), 1, DType::kI64);
  for (size_t r = 0; r < all.size(); r++) WEFT_CHECK(all[r] == all[0], fmt::format("rank {} {}", r, otherwise));
}

Ranks RanksOf(ProcessGroup& group) {
  return {group.rank(), group.size(), [&group](std::string_view bytes) { return GatherBytes(group, bytes); }, ""};
}

absl::Status FirstFault(const Ranks& ranks, const absl::Status& mine) {
  std::string text = mine.ok() ? "" : fmt::format("{}{}", char('A' + mine.raw_code()), std::string(mine.message()));
  for (const std::string& fault : ranks.gather(text))
    if (!fault.empty()) return absl::Status(absl::StatusCode(fault[0] - 'A'), fault.substr(1));
  return absl::OkStatus();
}

}  // namespace weft
