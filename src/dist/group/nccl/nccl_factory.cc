#include "weft/dist/group/nccl/nccl_factory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "weft/dist/group/nccl/nccl_group.h"
#include "weft/dist/net/rank_list.h"
#include "weft/dist/signals/hang_guard.h"

namespace weft {
namespace {

// The most multiprocessors that a group's calls use. The kernels of a few groups, which wait for other ranks in no
// fixed order, must all fit on a GPU at once (core/compile/overlap/overlap.h).
constexpr int kMostCtas = 32;

}  // namespace

// Connects all ranks. Rank 0 makes the id with which they find each other.
void NcclGroupFactory::Meet() {
  nccl::UniqueId id{};
  if (bootstrap_.rank() == 0) library_->Check(library_->GetUniqueId(&id), "NCCL: a name for the ranks' meeting");
  std::string name = bootstrap_.AllGather({id.bytes, bootstrap_.rank() == 0 ? sizeof(id.bytes) : 0}).front();
  std::memcpy(id.bytes, name.data(), std::min(name.size(), sizeof(id.bytes)));
  nccl::Config config;
  config.max_ctas = kMostCtas;
  nccl::Communicator* comm = nullptr;
  HangGuard guard(fmt::format("rank {}", bootstrap_.rank()), "ncclCommInitRankConfig", bootstrap_.timeout());
  library_->Check(library_->CommInitRankConfig(&comm, bootstrap_.world_size(), id, bootstrap_.rank(), &config),
                  fmt::format("NCCL cannot connect the {} ranks", bootstrap_.world_size()));
  world_ = std::make_shared<NcclCommunicator>(library_, comm);
}

std::shared_ptr<NcclCommunicator> NcclGroupFactory::Split(const std::string& name, const std::vector<int>& ranks,
                                                          int rank) {
  nccl::Config config;
  config.max_ctas = kMostCtas;
  config.split_share = 0;  // calls of communicators with shared resources would wait for each other
  nccl::Communicator* comm = nullptr;
  int color = ranks.size() > 1 ? *std::min_element(ranks.begin(), ranks.end()) : nccl::kNoColor;
  HangGuard guard(fmt::format("rank {}", bootstrap_.rank()), "ncclCommSplit", bootstrap_.timeout());
  library_->Check(library_->CommSplit(world_->get(), color, rank, &comm, &config),
                  fmt::format("group \"{}\": NCCL cannot connect ranks {}", name, RankList(ranks)), world_->get());
  return comm ? std::make_shared<NcclCommunicator>(library_, comm) : nullptr;
}

std::unique_ptr<ProcessGroup> NcclGroupFactory::Make(const std::string& name, const std::vector<int>& ranks,
                                                     DeviceKind kind) {
  WEFT_CHECK(kind == device_.device().kind, fmt::format("group \"{}\": NCCL moves {} tensors only, not {}", name,
                                                        Name(device_.device().kind), Name(kind)));
  auto it = std::find(ranks.begin(), ranks.end(), bootstrap_.rank());
  WEFT_CHECK(it != ranks.end(),
             fmt::format("group \"{}\": rank {} asks for a group that it is not in", name, bootstrap_.rank()));
  auto rank = int(it - ranks.begin());
  if (!world_) Meet();
  // The first group of all ranks reuses the communicator of the rendezvous.
  bool whole = int(ranks.size()) == bootstrap_.world_size() && std::is_sorted(ranks.begin(), ranks.end());
  bool take = whole && !std::exchange(world_taken_, world_taken_ || whole);
  return std::make_unique<NcclGroup>(name, rank, ranks, device_, take ? world_ : Split(name, ranks, rank), replays_,
                                     bootstrap_.host());
}

}  // namespace weft
