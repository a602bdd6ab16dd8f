#include "weft/dist/signals/hang_guard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "weft/core/host/host_name.h"
#include "weft/core/host/notice.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kNote{30'000};

}  // namespace

HangGuard::HangGuard(std::string who, std::string call, milliseconds limit)
    : who_(fmt::format("{} (host {}, pid {})", who, HostName(), getpid())),
      call_(std::move(call)),
      thread_([this, limit] { Watch(limit); }) {}

HangGuard::~HangGuard() {
  {
    std::lock_guard lock(mutex_);
    returned_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool HangGuard::Returned(Clock::time_point by) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, by, [this] { return returned_; });
}

void HangGuard::Watch(milliseconds limit) {
  Clock::time_point begin = Clock::now();
  if (Returned(begin + std::min(kNote, limit))) return;
  if (who_.starts_with("rank 0 ")) PrintNote("{} still waits in {} for the other ranks", who_, call_);
  if (Returned(begin + limit)) return;
  PrintStderr("weft: {}: {} has not returned within {} ms: a rank hangs, or cannot be reached\n", who_, call_,
              limit.count());
  std::fflush(nullptr);
  _exit(1);
}

}  // namespace weft
