#include "weft/core/runtime/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/base/error.h"
#include "weft/core/host/rounding.h"
#include "weft/core/runtime/backend_times.h"
#include "weft/core/runtime/kernel.h"
#include "weft/core/runtime/thread_pool.h"

namespace weft {

Context::Context(int rank, int world_size, int threads)
    : rank_(rank),
      world_size_(world_size),
      threads_(std::max(threads, 1)),
      backend_times_(std::make_unique<BackendTimes>()) {
  for (auto& table : tables_) table = std::make_unique<KernelTable>();
  runtimes_[size_t(DeviceKind::kCpu)] = &CpuRuntime();
  if (threads_ > 1) pool_ = std::make_unique<ThreadPool>(threads_ - 1);
}
Context::Context(std::unique_ptr<ContextService> service, int rank, int world_size, int threads, SetUp set_up)
    : Context(rank, world_size, threads) {
  service_ = std::move(service);
  set_up(*this);
}
Context::~Context() = default;

Device Context::accelerator() const {
  return device(Has(DeviceKind::kCuda) ? DeviceKind::kCuda : DeviceKind::kCpu).device();
}

DeviceRuntime& Context::device(DeviceKind kind) const {
  WEFT_CHECK(Has(kind), fmt::format("rank {} has no {} device: its backend was not opened", rank_, Name(kind)));
  return *runtimes_[size_t(kind)];
}

void Context::AddDevice(std::unique_ptr<DeviceRuntime> runtime) {
  runtimes_[size_t(runtime->device().kind)] = runtime.get();
  owned_.push_back(std::move(runtime));
}

void Context::ParallelFor(int64_t n, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> fn) const {
  if (n <= 0) return;
  int64_t pieces = std::min<int64_t>(threads_, CeilDiv(n, std::max<int64_t>(grain, 1)));
  if (pieces <= 1) return fn(0, n);
  int64_t chunk = CeilDiv(n, pieces);
  pool_->Run(int(pieces), [&](int i) {
    int64_t begin = i * chunk, end = std::min(begin + chunk, n);
    if (begin < end) fn(begin, end);
  });
}

}  // namespace weft
