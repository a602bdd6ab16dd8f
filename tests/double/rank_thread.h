// RankThread: the bootstrap of a rank that is a thread. It exchanges data between ranks before they have groups.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/core/host/cores.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/start/bootstrap.h"

namespace weft::test {

class RankThread final : public Bootstrap {
 public:
  RankThread(const std::shared_ptr<LocalWorld>& world, int rank, const std::string& host = "here")
      : Bootstrap(std::chrono::seconds(60)) {
    rank_ = local_rank_ = rank;
    world_size_ = local_size_ = world->size();
    host_ = host;
    cores_ = std::max(1, AvailableCores() / world->size());
    std::vector<int> all;
    for (int r = 0; r < world->size(); r++) all.push_back(r);
    LocalGroupFactory groups(world, rank);
    group_ = groups.Make("bootstrap", all, DeviceKind::kCpu);
  }
  [[noreturn]] void Abort(int) override { Fail("a rank that is a thread aborts"); }

 protected:
  std::vector<std::string> Exchange(std::string_view bytes, Clock::time_point) override {
    auto mine = int64_t(bytes.size());
    std::vector<int64_t> sizes(static_cast<size_t>(world_size_));
    group_->AllGather(&mine, sizes.data(), 1, DType::kI64);
    int64_t sum = 0;
    for (int64_t size : sizes) sum += size;
    std::string all(static_cast<size_t>(sum), '\0');
    group_->AllGatherV(bytes.data(), all.data(), sizes, DType::kU8);
    std::vector<std::string> parts;
    size_t at = 0;
    for (int64_t size : sizes) {
      parts.push_back(all.substr(at, size_t(size)));
      at += size_t(size);
    }
    return parts;
  }

 private:
  std::unique_ptr<ProcessGroup> group_;
};

}  // namespace weft::test
